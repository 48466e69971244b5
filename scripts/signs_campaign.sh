#!/bin/sh
# Certified signs against the certified reference, MPFR and exact rationals (docs/campaigns.md). It goes on where it stopped.
# Usage: scripts/signs_campaign.sh [ROUNDS [SEED]]
# Networks: the bundled ones and, where DRIFTBOUND_TEST_DATA says where they are, fox and bunny; or MODELS (files, separated by
# spaces). Results, one line a unit of work: RESULTS, else build/signs_campaign.jsonl.
# Quick look: RESULTS=/tmp/quick.jsonl MODELS=examples/models/oscillator_d2_w16.onnx scripts/signs_campaign.sh 1
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD_DIR:-$root/build/campaign}

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DDRIFTBOUND_BUILD_TESTS=OFF \
  -DDRIFTBOUND_BUILD_PROGRAM=OFF -DDRIFTBOUND_INSTALL=OFF -DDRIFTBOUND_CUDA=OFF >/dev/null
cmake --build "$build" -j2 >/dev/null
"${CXX:-g++}" -std=c++20 -O2 -ffp-contract=off -I"$root/include" -I"$root/tests" -DDRIFTBOUND_SOURCE_DIR="\"$root\"" \
  "$root/scripts/signs_campaign.cpp" -o "$build/signs_campaign" \
  "$build/src/libdriftbound.a" -lmpfr -lgmp -lfmt -lzip -ldl -pthread

if [ -z "${MODELS:-}" ]; then
  MODELS=$(ls "$root"/examples/models/*.onnx)
  for name in fox bunny; do
    file=${DRIFTBOUND_TEST_DATA:-}/neural-implicit-queries/$name.npz
    if [ -n "${DRIFTBOUND_TEST_DATA:-}" ] && [ -f "$file" ]; then
      MODELS="$MODELS $file"
    else
      echo "$name: skipped, not under DRIFTBOUND_TEST_DATA" >&2
    fi
  done
fi
# shellcheck disable=SC2086
exec nice -n 15 "$build/signs_campaign" "${RESULTS:-$root/build/signs_campaign.jsonl}" "${1:-20}" "${2:-20261122}" $MODELS

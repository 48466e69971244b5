#!/bin/sh
# Builds the library and runs the campaign of bounds for every run of docs/campaigns.md. It goes on where it stopped.
# Usage: scripts/bounds_campaign.sh [SAMPLES [RANDOM_UNITS [CASES [SEED]]]]
# Networks: those of MODELS (files, separated by spaces), else the bundled ones of 64 and 256 neurons and what
# scripts/train_models.sh --large has written. Results, one line a unit of work: RESULTS, else build/bounds_campaign.jsonl.
# Quick look: RESULTS=/tmp/quick.jsonl MODELS=examples/models/oscillator_d2_w16.onnx scripts/bounds_campaign.sh 50 1 20
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/campaigns.sh
. "$root/scripts/campaigns.sh"

build_library

flags="-std=c++20 -O2 -ffp-contract=off -I$root/include -I$root/src -I$root/tests"
libraries=
foreign="-O3 -march=native"
if pkg-config --exists eigen3; then foreign="$foreign -DDRIFTBOUND_WITH_EIGEN $(pkg-config --cflags eigen3)"; fi
if pkg-config --exists openblas; then
  foreign="$foreign -DDRIFTBOUND_WITH_OPENBLAS $(pkg-config --cflags openblas)"
  libraries=$(pkg-config --libs openblas)
fi
# shellcheck disable=SC2086
"${CXX:-g++}" $flags $foreign -c "$root/tests/soundness/foreign_products.cpp" -o "$build/foreign_products.o"
sources=
for source in random_values random_networks soundness_check foreign_runs any_run_check every_run plain_network lone_node worst_roundings \
  chosen_sums chosen_orders; do
  sources="$sources $root/tests/soundness/$source.cpp"
done
# shellcheck disable=SC2086
"${CXX:-g++}" $flags "$root/scripts/bounds_campaign.cpp" $sources "$build/foreign_products.o" -o "$build/bounds_campaign" \
  "$build/src/libdriftbound.a" $libraries -lmpfr -lgmp -lfmt -lzip -pthread

if [ -z "${MODELS:-}" ]; then
  MODELS=$(ls "$root"/examples/models/oscillator_d8_w64.onnx "$root"/examples/models/oscillator_d4_w256.onnx \
    "$root"/examples/models/siren.onnx "$root"/examples/models/*_sdf_*.onnx "$root"/build/large-models/*.onnx 2>/dev/null || true)
fi
export OPENBLAS_NUM_THREADS=1
# shellcheck disable=SC2086
exec nice -n 15 "$build/bounds_campaign" "${RESULTS:-$root/build/bounds_campaign.jsonl}" "${1:-1000}" "${2:-40}" "${3:-600}" \
  "${4:-20261121}" $MODELS

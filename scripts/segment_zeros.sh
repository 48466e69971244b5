#!/bin/sh
# Zeros of the oscillating classifiers on their line, certified, against those that sampling shows (docs/campaigns.md).
# Usage: scripts/segment_zeros.sh [SAMPLES [MODEL...]]; without models: all bundled ones, by depth and width.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD_DIR:-$root/build/campaign}

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DDRIFTBOUND_BUILD_TESTS=OFF \
  -DDRIFTBOUND_BUILD_PROGRAM=OFF -DDRIFTBOUND_INSTALL=OFF -DDRIFTBOUND_CUDA=OFF >/dev/null
cmake --build "$build" -j2 >/dev/null
"${CXX:-g++}" -std=c++20 -O2 -ffp-contract=off -I"$root/include" "$root/scripts/segment_zeros.cpp" -o "$build/segment_zeros" \
  "$build/src/libdriftbound.a" -lmpfr -lgmp -lfmt -lzip -ldl -pthread

samples=${1:-100000}
if [ $# -gt 0 ]; then shift; fi
if [ $# -eq 0 ]; then
  for depth in 2 4 8; do
    for width in 16 64 128 256; do
      model=$root/examples/models/oscillator_d${depth}_w${width}.onnx
      if [ -f "$model" ]; then set -- "$@" "$model"; fi
    done
  done
fi
exec "$build/segment_zeros" "$samples" "$@"

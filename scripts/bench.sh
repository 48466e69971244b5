#!/usr/bin/env bash
# Runs the benchmarks (or the one named) and prints one JSON object a line; ratio = our time / theirs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
install_packages $packages_to_build $peers_to_bench >&2
cmake -S . -B build/bench -G Ninja -DCMAKE_BUILD_TYPE=Release -DDRIFTBOUND_BUILD_TESTS=OFF -DDRIFTBOUND_BUILD_BENCH=ON >/dev/null
cmake --build build/bench -j2 >&2
for program in build/bench/bench/bench_${1:-*}; do
  [ -x "$program" ] && [ -f "$program" ] && "$program"
done

#!/bin/sh
# Builds and runs the exhaustive accuracy measurement of the float32 elementary functions.
# Usage: scripts/exhaustive_f32.sh [FUNCTIONS|all [THREADS [STRIDE]]]
# Quick look: scripts/exhaustive_f32.sh all 2 1009. All inputs: scripts/exhaustive_f32.sh
set -eu

source_dir=$(cd "$(dirname "$0")" && pwd)
build_dir=$(mktemp -d)
trap 'rm -rf "$build_dir"' EXIT

"${CXX:-g++}" -std=c++20 -O2 -ffp-contract=off -Wall -Wextra -Wconversion -Wshadow \
  -I"$source_dir/../src" "$source_dir/exhaustive_f32.cpp" -o "$build_dir/exhaustive_f32" -lmpfr -lgmp -pthread
nice -n 10 "$build_dir/exhaustive_f32" "$@"

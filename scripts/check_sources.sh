#!/usr/bin/env bash
# Checks every source of library and program by itself, with all warnings, by clang where it is installed, else by g++: presets and .ci/run
# compile most of them several at once, where a source may lean on what another one includes.
set -euo pipefail
cd "$(dirname "$0")/.."

compiler=${CXX:-$(command -v clang++ || command -v g++)}
echo "Checking every source by itself, by $compiler"
CXX=$compiler cmake -S . -B build/alone -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-DNDEBUG -fsyntax-only" \
  -DDRIFTBOUND_BUILD_TESTS=OFF -DDRIFTBOUND_WARNINGS_AS_ERRORS=ON -DDRIFTBOUND_CUDA=OFF >/dev/null
ninja -C build/alone -t targets all | sed -n 's/: CXX_COMPILER_.*//p' | xargs ninja -C build/alone -j2

# Sourced by the campaigns that link the library, after they set `root`: where they are built, and what several of them do.

build=${BUILD_DIR:-$root/build/campaign}

build_library() {
  cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DDRIFTBOUND_BUILD_TESTS=OFF \
    -DDRIFTBOUND_BUILD_PROGRAM=OFF -DDRIFTBOUND_INSTALL=OFF -DDRIFTBOUND_CUDA=OFF >/dev/null
  cmake --build "$build" -j2 >/dev/null
}

# build_campaign NAME: scripts/NAME.cpp with the library, as $build/NAME.
build_campaign() {
  build_library
  "${CXX:-g++}" -std=c++20 -O2 -ffp-contract=off -I"$root/include" -I"$root/tests" -DDRIFTBOUND_SOURCE_DIR="\"$root\"" \
    "$root/scripts/$1.cpp" -o "$build/$1" "$build/src/libdriftbound.a" -lmpfr -lgmp -lfmt -lzip -ldl -pthread
}

# Sets MODELS, unless it is set: the bundled networks and, where DRIFTBOUND_TEST_DATA says where they are, fox and bunny.
choose_networks() {
  if [ -n "${MODELS:-}" ]; then return; fi
  MODELS=$(ls "$root"/examples/models/*.onnx)
  for name in fox bunny; do
    file=${DRIFTBOUND_TEST_DATA:-}/neural-implicit-queries/$name.npz
    if [ -n "${DRIFTBOUND_TEST_DATA:-}" ] && [ -f "$file" ]; then
      MODELS="$MODELS $file"
    else
      echo "$name: skipped, not under DRIFTBOUND_TEST_DATA" >&2
    fi
  done
}

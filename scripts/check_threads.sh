#!/bin/sh
# Runs what goes by several threads under the thread sanitizer, and fails at the first warning: reports in four arithmetics,
# bounds over a box, signs on grids and along a segment, and one field of signs that several threads ask at a time.
# Builds library and program in BUILD_DIR, else build/tsan (a quarter of an hour). MPFR, GMP and libzip are not looked at.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD_DIR:-$root/build/tsan}
models=$root/examples/models

cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDRIFTBOUND_SANITIZERS=thread -DDRIFTBOUND_UNITY_BUILD=ON \
  -DDRIFTBOUND_BUILD_TESTS=OFF -DDRIFTBOUND_CUDA=OFF >/dev/null
cmake --build "$build" -j2 --target driftbound_program >/dev/null
"${CXX:-g++}" -std=c++20 -O1 -fsanitize=thread -I"$root/include" "$root/scripts/check_threads.cpp" -o "$build/check_threads" \
  "$build/src/libdriftbound.a" -lmpfr -lgmp -lfmt -lzip -pthread

export TSAN_OPTIONS="halt_on_error=1 exitcode=66"
check() {
  echo "$*"
  status=0
  "$@" --threads 4 >"$build/check_threads.log" 2>&1 || status=$?
  if [ "$status" -gt 1 ] || grep -q "ThreadSanitizer" "$build/check_threads.log"; then
    cat "$build/check_threads.log" >&2
    exit 1
  fi
}
run=$build/driftbound
check "$run" report "$models/oscillator_d4_w64.onnx" --samples 200 --scalar 'logits[1]-logits[0]'
check "$run" report "$models/torus_sdf_softplus.onnx" --samples 200 --box -0.01:0.01
check "$run" report "$models/siren.onnx" --samples 200 --arithmetic tf32
check "$run" report "$models/sphere_cut_sdf_relu.onnx" --samples 300 --arithmetic bf16
check "$run" report "$models/oscillator_d8_w64.onnx" --samples 300 --arithmetic fp64
check "$run" certify "$models/siren.onnx" --grid 24x24x24
check "$run" certify "$models/torus_sdf_softplus.onnx" --grid 24x24x24
check "$run" certify "$models/mlp_2_10_10_2.onnx" --grid 64x64 --scalar 'logits[1]-logits[0]'
check "$run" certify "$models/sphere_cut_sdf_relu.onnx" --segment 0.9,0.1,0.2:-0.9,0.1,0.2:1000
"$build/check_threads" "$models/siren.onnx" "$models/torus_sdf_softplus.onnx" "$models/sphere_cut_sdf_relu.onnx"
echo "no warning"

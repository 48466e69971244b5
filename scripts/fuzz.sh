#!/usr/bin/env bash
# Builds the fuzz targets (docs/fuzzing.md) and runs each in turn on one core. Needs clang++ with its libFuzzer.
# Usage: scripts/fuzz.sh [AMOUNT [TARGET...]]   AMOUNT: seconds a target (10s) or executions a target (1000000); 10s if
#                                               left out
# What a run learns is kept in build/fuzz/working and used by the next one; build/fuzz/executions counts them all.
# Findings lie in build/fuzz/findings; the status is 1 where there are any.
set -euo pipefail
cd "$(dirname "$0")/.."

amount=${1:-10s}
shift || true
targets=${*:-onnx drawn_onnx shapes zip layers npy safetensors trace recording csv json inputs}
case $amount in
  *s) limit=-max_total_time=${amount%s} ;;
  *) limit=-runs=$amount ;;
esac

build=build/fuzz
cmake -S . -B $build -DCMAKE_CXX_COMPILER="${CLANGXX:-clang++}" -DCMAKE_BUILD_TYPE=None -DDRIFTBOUND_BUILD_FUZZERS=ON \
  -DDRIFTBOUND_BUILD_TESTS=OFF -DDRIFTBOUND_BUILD_PROGRAM=OFF -DDRIFTBOUND_INSTALL=OFF >/dev/null
# shellcheck disable=SC2046,SC2086
cmake --build $build -j2 --target $(printf 'fuzz_%s ' $targets) >/dev/null

mkdir -p $build/executions
failed=0
for target in $targets; do
  working=$build/working/$target
  findings=$build/findings/$target
  mkdir -p "$working" "$findings"
  case $target in
    zip | onnx | recording) longest=2048 ;;  # as long as their seeds but for the bombs
    *) longest=512 ;;
  esac
  options=(-print_funcs=0 -print_final_stats=1 -max_len=$longest -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=256 -artifact_prefix="$findings/")
  if [ -f "tests/fuzz/dictionaries/$target.dict" ]; then
    options+=("-dict=tests/fuzz/dictionaries/$target.dict")
  fi
  folders=("$working" "tests/fuzz/corpus/$target")
  if [ -d "tests/fuzz/regressions/$target" ]; then
    folders+=("tests/fuzz/regressions/$target")
  fi
  nice -n 5 "$build/tests/fuzz/libfuzzer/fuzz_$target" "${options[@]}" $limit "${folders[@]}" >"$build/$target.log" 2>&1 || failed=1
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$target.log")
  echo "${executions:-0}" >>"$build/executions/$target"
  printf '%-12s %12s executions (%s in all), %s findings\n' "$target" "${executions:-?}" \
    "$(awk '{ sum += $1 } END { printf "%d", sum }' "$build/executions/$target")" "$(find "$findings" -type f | wc -l)"
done
exit $failed

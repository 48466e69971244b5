#!/usr/bin/env bash
# Everything that a machine with an NVIDIA GPU can tell, in one command and without network (docs/gpu.md):
# the GPU tests, the benchmark, every bundled network recorded in every mode and batch size, our own product compared bit
# for bit with the CPU evaluator, and reports.
#
#   scripts/check_gpu.sh --pack [DIR]   on a machine with network: gathers programs and headers in DIR, to travel along
#   scripts/check_gpu.sh [options]      on the machine with the GPU
#
#   --out DIR         where at most 8 files below 16 MiB go            ($OUT, else build/check_gpu)
#   --carry DIR       what --pack gathered                             (build/carry)
#   --programs DIR    programs of an existing build, instead of those brought along
#   --build           build the CUDA module here even where one was brought along; the programs brought along stay
#   --networks LIST   names of bundled networks                        (all)
#   --modes LIST      as in the table                                  (all)
#   --batches LIST    batch sizes                                      (1,16,256,10000)
#   --samples N       samples of the largest batch                     (10000)
#   --rows N          of them recorded                                 (16)
#   --jobs N          networks at a time                               (4, or as many as there are cores)
#   --quick           the benchmark on tiny matrices, no tools of the toolkit; for tests
#   --products LIST   inner dimensions of the products                 (64,256,1024,4096,8192)
#   --only PARTS      of tests,bench,networks,tools,probe,products,algorithms: the GPU tests; the benchmark; the networks,
#                     recorded and judged; compute-sanitizer and cuobjdump; the order and the arithmetic of products, by masks;
#                     products, recorded and explained; both for products by cuBLASLt's algorithms, one by one
#                                                                      (the first four)
#   --time-limit S    seconds after which nothing new is begun         (480)
#   --part-limit S    the same of one part                             (240)
#
# Exit status: 0 everything passed, 1 something failed or was left out for time, 3 bad usage, 4 no usable GPU.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 3
root=$PWD
start=$(date +%s)

carry=$root/build/carry
out=${OUT:-$root/build/check_gpu}
models=$root/examples/models
programs='' networks='' modes='' quick='' build='' batches=1,16,256,10000 samples=10000 rows=16 time_limit=480
products=64,256,1024,4096,8192 part_limit=240 part_end=''
only=tests,bench,networks,tools
jobs=$(nproc 2>/dev/null || echo 1)
[ "$jobs" -gt 4 ] && jobs=4

fail_usage() { echo "check_gpu: $1; see the head of scripts/check_gpu.sh" >&2; exit 3; }
not_available() {
  echo "check_gpu: $1" >&2
  [ ! -d "$out" ] || echo "$1" >>"$out/log.txt"
  exit 4
}
elapsed() { echo $(($(date +%s) - start)); }
time_left() {
  local end=${part_end:-$time_limit}
  echo $(((end < time_limit ? end : time_limit) - $(elapsed)))
}
say() { printf '[%3d s] %s\n' "$(elapsed)" "$1" | tee -a "$out/log.txt"; }
show() { tee -a "$out/log.txt"; }
generator() { if command -v ninja >/dev/null; then echo Ninja; else echo "Unix Makefiles"; fi; }
absolute() { case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac; }

# One checksum over everything that the programs are built from.
sources_checksum() {
  find CMakeLists.txt VERSION cmake include src analysis cli cuda bench scripts tests/gpu tests/conformance tests/evaluate tests/support -type f 2>/dev/null |
    LC_ALL=C sort | xargs cksum | cksum
}

# ---------------------------------------------------------------------------------------------------- --pack

copy_headers() {
  local header file
  mkdir -p "$carry/include"
  for header in nlohmann/json.hpp CLI/CLI.hpp fmt/format.h doctest/doctest.h; do
    file=$(echo "#include <$header>" | "${CXX:-g++}" -std=c++20 -x c++ -M - | tr ' \\' '\n\n' | grep "/$header\$" | head -1)
    [ -n "$file" ] || { echo "check_gpu: the header $header is not installed; run ./test.sh once" >&2; exit 1; }
    cp -r "$(dirname "$file")" "$carry/include/"
  done
}

# Shared libraries that a machine with another distribution may lack; those of the C and C++ compilers are there.
copy_libraries() {
  mkdir -p "$carry/bin/lib"
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(ld-linux[^/]*|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)\.so\.[0-9]+$' | xargs -r cp -Lt "$carry/bin/lib"
}

pack() {
  rm -rf "$carry"
  mkdir -p "$carry/bin" "$root/build/pack"
  sources_checksum >"$carry/sources.cksum"
  copy_headers
  cmake -S . -B build/pack -G "$(generator)" -DCMAKE_BUILD_TYPE=Release -DDRIFTBOUND_UNITY_BUILD=ON \
    -DDRIFTBOUND_BUILD_TESTS=OFF -DDRIFTBOUND_GPU_CHECK=ON -DDRIFTBOUND_CUDA=AUTO -DCMAKE_BUILD_RPATH='$ORIGIN/lib' \
    -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags >build/pack/configure.log ||
    { cat build/pack/configure.log; exit 1; }
  cmake --build build/pack --parallel "$(nproc)" || exit 1
  cp build/pack/driftbound build/pack/check_networks build/pack/bench_gpu build/pack/test_gpu "$carry/bin/" || exit 1
  strip "$carry"/bin/driftbound "$carry"/bin/check_networks "$carry"/bin/bench_gpu "$carry"/bin/test_gpu
  copy_libraries "$carry"/bin/*
  if [ -d build/pack/driftbound-modules ]; then
    cp -r build/pack/driftbound-modules "$carry/bin/"
    module="with the CUDA module"
  else
    module="without the CUDA module (no nvcc here): it is built where the GPU is"
  fi
  echo "$carry: $(du -sm "$carry" | cut -f1) MiB, programs $module; take it along as build/carry"
}

# ---------------------------------------------------------------------------------------------------- programs

has_gpu() {
  # grep -q would end before ldconfig has written all, which pipefail takes for a failure.
  [ -n "${DRIFTBOUND_PLUGIN_PATH:-}" ] || command -v nvidia-smi >/dev/null || ls /dev/nvidia[0-9]* >/dev/null 2>&1 ||
    [ -e /dev/dxg ] || case $(ldconfig -p 2>/dev/null) in *libcuda.so.1*) true ;; *) false ;; esac
}
tool() { PATH=$PATH:${CUDA_PATH:-/usr/local/cuda}/bin command -v "$1"; }
has_nvcc() { tool nvcc >/dev/null; }
module() {
  local folders=${DRIFTBOUND_PLUGIN_PATH:-$programs/driftbound-modules}
  echo "${folders%%:*}/libdriftbound_cuda.so"
}
has_module() { [ -e "$(module)" ]; }
runs() { "$1/driftbound" --version >/dev/null 2>&1 && "$1/check_networks" --help >/dev/null 2>&1; }
can_judge() { "$programs/driftbound" report >/dev/null 2>&1; [ $? -ne 4 ]; }

use_what_was_brought() {
  [ -d "$carry/bin" ] || return
  if [ "$(cat "$carry/sources.cksum" 2>/dev/null)" != "$(sources_checksum)" ]; then
    say "not used: the programs in $carry were built from other sources; run scripts/check_gpu.sh --pack anew"
  elif ! runs "$carry/bin"; then
    say "not used: the programs in $carry do not run here"
  else
    programs=$carry/bin
  fi
}

build_capture() {
  local headers='' log=$out/build.log most=$((time_limit / 2)) status
  [ -d "$carry/include" ] && headers="-DDRIFTBOUND_HEADERS=$carry/include"
  say "building the capture preset"
  within "$most" cmake -S . -B build/capture -G "$(generator)" -DCMAKE_BUILD_TYPE=Release -DDRIFTBOUND_UNITY_BUILD=ON \
    -DDRIFTBOUND_CAPTURE_ONLY=ON -DDRIFTBOUND_CUDA="$(has_nvcc && echo ON || echo OFF)" $headers >"$log" 2>&1 &&
    within "$most" cmake --build build/capture --parallel "$(nproc)" >>"$log" 2>&1
  status=$?
  if [ $status -eq 0 ]; then
    say "built: $(grep -c . "$log") lines of log, no error"
    rm "$log"
  else
    tail -40 "$log" | show
    failed "the capture preset does not build here: $(why $status "$most"), see build.log"
    return 1
  fi
}

choose_programs() {
  if [ -n "$programs" ]; then
    runs "$programs" || fail_usage "--programs $programs: no driftbound and check_networks there that run"
  else
    use_what_was_brought
  fi
  if [ -n "$programs" ] && has_module && [ -z "$build" ]; then return; fi
  has_module || has_nvcc ||
    not_available "there is no CUDA module and no nvcc to build it: run scripts/check_gpu.sh --pack where nvcc is, and take build/carry along"
  if build_capture; then
    [ -n "$programs" ] || programs=$root/build/capture
    [ -n "${DRIFTBOUND_PLUGIN_PATH:-}" ] || export DRIFTBOUND_PLUGIN_PATH=$root/build/capture/driftbound-modules
  fi
  [ -n "$programs" ] || finish
}

# ---------------------------------------------------------------------------------------------------- steps

failed() {
  echo "$1" >>"$work/failures"
  say "FAILED: $1"
}

# within S COMMAND…: ended after S seconds or at the time limit, not begun after that.
within() {
  local seconds=$1 left
  shift
  left=$(time_left)
  [ "$left" -gt 0 ] || return 125
  timeout "$((left < seconds ? left : seconds))" "$@"
}
limited() { within "$time_limit" "$@"; }
limit() { if [ "$(elapsed)" -lt "$time_limit" ]; then echo "$part_limit s of a part"; else echo "$time_limit s"; fi; }
# why STATUS [S]: of `limited`, or of `within S`.
why() {
  case $1 in
    124)
      if [ $# -gt 1 ] && [ "$(time_left)" -gt 0 ]; then
        echo "cut off after $2 s"
      else
        echo "cut off at the time limit of $(limit)"
      fi
      ;;
    125) echo "left out at the time limit of $(limit)" ;;
    *) echo "exit status $1" ;;
  esac
}

# each N FUNCTION ITEM…: the function for every item, N at a time.
each() {
  local together=$1 function=$2 item
  shift 2
  for item in "$@"; do
    while [ "$(jobs -rp | wc -l)" -ge "$together" ]; do wait -n; done
    "$function" "$item" &
  done
  wait
}

describe_machine() {
  echo "date       $(date -u +%Y-%m-%dT%H:%M:%SZ)"
  echo "sources    checksum $(sources_checksum)$(git rev-parse --short HEAD 2>/dev/null | sed 's/^/, commit /')"
  echo "program    $("$programs/driftbound" --version) in $programs"
  echo "module     $(module)"
  echo "system     $(uname -srm), $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2>/dev/null)"
  echo "processor  $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) threads"
  echo "compiler   $("${CXX:-c++}" --version 2>/dev/null | head -1)"
  echo "nvcc       $(PATH=$PATH:${CUDA_PATH:-/usr/local/cuda}/bin nvcc --version 2>/dev/null | grep release || echo none)"
  echo "GPU        $(nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader 2>/dev/null || echo 'no nvidia-smi')"
  env | grep -E '^(NVIDIA_TF32_OVERRIDE|CUBLAS_|CUDA_)' | sort
}

capture_something() {
  limited "$programs/driftbound" capture "$models/${networks%% *}.onnx" --backend cuda --samples 2 --quiet \
    -o "$work/probe.safetensors" 2>&1
}

# find_cublas SENTENCE: cuBLAS where the loader does not look, beside a toolkit or in a Python package: the file that the
# program's sentence names, else the newest. Toolkits may lie on file systems of their own.
find_cublas() {
  local files='' wanted file='' folder
  wanted=$(echo "$1" | sed -n 's/.*\(libcublas\.so\.[0-9][0-9]*\).*/\1/p')
  for folder in /usr/local/cuda* /opt /; do
    files+=$(timeout 30 find -H "$folder" -xdev -name 'libcublas.so.1[0-9]' 2>/dev/null)$'\n'
    [ -z "$wanted" ] || file=$(echo "$files" | grep -F "/$wanted" | head -1)
    [ -z "$file" ] || break
  done
  [ -n "$file" ] || file=$(echo "$files" | grep . | sed 's|.*/\(.*\)|\1 &|' | sort -V | tail -1 | cut -d ' ' -f 2-)
  [ -n "$file" ] || return 1
  say "cuBLAS is not where the loader looks; taking $file"
  export DRIFTBOUND_CUBLAS=$file LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${file%/*}
}

# A module from a newer toolkit than the driver knows, where a toolkit is here too.
build_for_this_driver() {
  has_nvcc && [ -z "$build" ] && build_capture && export DRIFTBOUND_PLUGIN_PATH=$root/build/capture/driftbound-modules
}

# Ends the script where there is no GPU that works, with the program's own sentence.
probe() {
  local message status
  message=$(capture_something)
  status=$?
  case $message in
    *"no cuBLAS"*) find_cublas "$message" && { message=$(capture_something); status=$?; } ;;
    *"update the driver"*) build_for_this_driver && { message=$(capture_something); status=$?; } ;;
  esac
  [ $status -eq 4 ] && not_available "${message#driftbound: }"
  [ $status -eq 0 ] || failed "capture --backend cuda: $(why $status) $message"
}

test_device() {
  local log=$out/test_gpu.log most=150 status
  DRIFTBOUND_GPU_MODULE=$(module) within $most "$programs/test_gpu" --no-version=true >"$log" 2>&1
  status=$?
  truncate -s '<8M' "$log"
  if [ $status -ne 0 ]; then
    grep -A12 -E 'ERROR|TEST CASE' "$log" | head -60 | show
    failed "test_gpu: $(why $status $most)"
  fi
  grep '^CUBLAS.* reads ' "$log" | show
  tail -4 "$log" | show
}

bench_device() {
  local most=60
  within $most "$programs/bench_gpu" $quick >"$out/bench.jsonl" 2>"$work/bench.err" ||
    failed "bench_gpu: $(why $? $most) $(tail -1 "$work/bench.err")"
  show <"$out/bench.jsonl"
}

# record_runs NAME ROWS FOLDER WHAT…: all modes and batch sizes of a network or a product.
record_runs() {
  local name=$1 rows_file=$2 folder=$3 status
  shift 3
  # shellcheck disable=SC2086
  limited "$programs/check_networks" "$@" --out "$folder" $modes --batches "$batches" \
    --samples "$samples" --rows "$rows" >"$rows_file" 2>"$work/$name.err"
  status=$?
  [ $status -ne 3 ] || touch "$work/bad_usage"
  if [ -s "$work/$name.err" ] || [ $status -gt 1 ]; then
    failed "$name: $(why $status) after $(grep -c . "$rows_file") runs $(tail -1 "$work/$name.err")"
  elif [ $status -eq 1 ]; then
    failed "$name: $(grep -c 'FAIL' "$rows_file") of $(grep -c . "$rows_file") runs"
  else
    say "$name: $(grep -c . "$rows_file") runs"
  fi
}
check_network() { record_runs "$1" "$work/rows/$1.tsv" "$work/traces" "$models/$1.onnx"; }
check_product() { record_runs "product_$1x64" "$work/products/$1.tsv" "$work/products" --product "$1"; }

# probe_kernel "ARITHMETIC GEMM SHAPE [ALGORITHM]": what probe finds, in one line.
probe_kernel() {
  local arithmetic gemm shape algorithm said status
  read -r arithmetic gemm shape algorithm <<<"$1"
  said=$(limited "$programs/driftbound" probe --backend cuda --arithmetic "$arithmetic" --gemm "$gemm" --shape "$shape" \
    ${algorithm:+--algorithm "$algorithm"} --quiet 2>&1)
  status=$?
  said=$(echo "$said" | tr '\n' ' ')
  echo "$1: ${said:-$(why $status)}" >>"$work/probed"
  # A product of cuBLAS that no tree explains is a finding; the ordered one has a declared order.
  case $status in
    0) ;;
    3) [ "$gemm" != ordered ] || failed "probe $1: $said" ;;
    *) failed "probe $1: ${said:-$(why $status)}" ;;
  esac
}

# probe_kernels NAME KERNEL…: all of them, in order.
probe_kernels() {
  local name=$1
  shift
  if ! can_judge; then
    say "$name: left out, the program here records only; take a full build"
    return
  fi
  : >"$work/probed"
  each "$jobs" probe_kernel "$@"
  sort "$work/probed" | show
}

probe_device() {
  local arithmetic gemm shape shapes='64,64,64 256,512,64 64,4096,64 1,512,64 10000,256,8' kernels=()
  [ -z "$quick" ] || shapes=16,40,16
  for gemm in ordered cublas cublas-pedantic; do
    for arithmetic in fp32 tf32 bf16 fp16; do
      [ "$gemm" != cublas-pedantic ] || [ "$arithmetic" = fp32 ] || continue
      for shape in $shapes; do kernels+=("$arithmetic $gemm $shape"); done
    done
  done
  probe_kernels probe "${kernels[@]}"
}

# record_algorithm "ARITHMETIC INNER ALGORITHM": a product by an algorithm of cuBLASLt, where it offers so many.
record_algorithm() {
  local arithmetic inner algorithm trace said status
  read -r arithmetic inner algorithm <<<"$1"
  trace=$work/algorithms/product_${inner}x64.$arithmetic-cublaslt-$algorithm.b256.safetensors
  said=$(limited "$programs/driftbound" capture "${trace%/*}/product_${inner}x64.onnx" --backend cuda \
    --arithmetic "$arithmetic" --gemm cublaslt --algorithm "$algorithm" --samples 256 --quiet -o "$trace" 2>&1)
  status=$?
  case $status in
    0) ! can_judge || explain_product "$trace" ;;
    3) case $said in *'there is no algorithm'*) ;; *) failed "capture $1: $said" ;; esac ;;
    *) failed "capture $1: ${said:-$(why $status)}" ;;
  esac
}

run_algorithms() {
  local arithmetic algorithm shape=256,512,64 inner=4096 numbers='0 1 2 3 4 5 6 7' kernels=() runs=()
  [ -z "$quick" ] || { shape=16,40,16 inner=64 numbers='0 1 2 3'; }
  for arithmetic in fp32 tf32 bf16 fp16; do
    for algorithm in $numbers; do
      kernels+=("$arithmetic cublaslt $shape $algorithm")
      runs+=("$arithmetic $inner $algorithm")
    done
  done
  limited "$programs/check_networks" --product $inner --out "$work/algorithms" --modes fp32-ordered --batches 1 \
    --samples 2 --rows 1 >/dev/null 2>"$work/algorithms.err" || failed "algorithms: $(tail -1 "$work/algorithms.err")"
  rm -f "$work"/algorithms/*.safetensors
  probe_kernels algorithms "${kernels[@]}"
  : >"$work/explained"
  each "$jobs" record_algorithm "${runs[@]}"
  sort "$work/explained" | show
  say "algorithms: $(ls "$work"/algorithms/*.safetensors 2>/dev/null | wc -l) runs recorded"
  case ",$only," in *,networks,* | *,products,*) ;; *) archive_traces "$work/algorithms" ;; esac
}

# What a trace of a product is explained by: its line of the section "Kernels".
explain_product() {
  local name line
  name=$(basename "$1" .safetensors)
  line=$(limited "$programs/driftbound" report "${1%/*}/${name%%.*}.onnx" --trace "$1" --explain-kernels \
    --threads 1 --fail-on never 2>&1 | awk '/^layers +equal/ { getline; sub(/^[^ ]+ +/, ""); print; exit }')
  printf '%-45s %s\n' "$name" "${line:-nothing was searched}" >>"$work/explained"
}

run_products() {
  local traces
  # shellcheck disable=SC2086
  each "$jobs" check_product ${products//,/ }
  if can_judge; then
    mapfile -t traces < <(ls "$work"/products/*.safetensors 2>/dev/null)
    : >"$work/explained"
    each "$(nproc)" explain_product "${traces[@]}"
    sort "$work/explained" | show
    say "products: $(grep -cvE 'no member of the family|does not tell|nothing was searched' "$work/explained") of ${#traces[@]} traces explained"
  else
    say "products: recorded and compared; explain the traces with a full build"
  fi
  case ",$only," in *,networks,*) ;; *) archive_traces "$work/products" ;; esac
}

table_of_runs() {
  cat "$work"/rows/*.tsv | awk -F '\t' '
    BEGIN { format = "%-24s %-20s %6s %6s %7s %8s %-11s %15s %9s %15s  %s\n"
            printf format, "network", "mode", "batch", "layers", "samples", "seconds", "observer", "not as on CPU", "largest",
                   "as other batch", "result" }
    { printf format, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11 }'
}

# A line a mode; the table of all runs is long.
summary_of_runs() {
  cat "$work"/rows/*.tsv | awk -F '\t' '
    { if (!($2 in runs)) order[++modes] = $2
      runs[$2]++
      if ($11 == "pass") passed[$2]++
      if ($8 != "-" && $8 !~ /^0\//) cpu[$2]++
      if ($10 != "-" && $10 !~ /^0\//) batch[$2]++
      if ($7 == "none") unobserved[$2]++ }
    END { for (i = 1; i <= modes; i++) { m = order[i]
            printf "%-20s %4d runs, %4d passed, %4d without observer effect; %4d differ from the CPU, %4d from another batch size\n",
                   m, runs[m], passed[m], unobserved[m], cpu[m], batch[m] } }'
}

# Of the largest batch all; of batch 1 those of cuBLAS, which has other kernels for vectors.
traces_to_judge() {
  ls "$work"/traces/*.b"$largest_batch".safetensors "$work"/traces/*-cublas*.b1.safetensors 2>/dev/null | sort -u
}

judge_trace() {
  local name verdict status
  name=$(basename "$1" .safetensors)
  verdict=$(limited "$programs/driftbound" report "$models/${name%%.*}.onnx" --trace "$1" --quiet --threads 1 2>&1)
  status=$?
  verdict=$(echo "$verdict" | tr '\n' ' ')
  printf '%-50s %s\n' "$name" "${verdict:-$(why $status)}" >"$work/verdicts/$name"
  [ $status -eq 0 ] || failed "report $name: ${verdict:-$(why $status)}"
}

report_on_device() {
  limited "$programs/driftbound" report "$models/$1.onnx" --backend cuda --arithmetic tf32 --samples 64 >"$work/tf32.$1" 2>&1 ||
    failed "report $1 --backend cuda --arithmetic tf32: $(why $?)"
  show <"$work/tf32.$1"
}

# The traces of a folder, each compressed, in at most 3 archives that stay below the limit; those of the largest batch first.
archive_traces() {
  local folder=$1 file size number=1 filled=0 kept limit=$((14 * 1024 * 1024))  # those above it alone are left out
  : >"$work/list.1"
  find "$folder" -name '*.safetensors' -print0 | xargs -0 -r -n 8 -P "$(nproc)" gzip
  for file in $(cd "$folder" && ls -rS ./*.b"$largest_batch".safetensors.gz 2>/dev/null; ls -rS ./*.gz); do
    grep -qxF "$file" "$work"/list.* && continue
    size=$(($(wc -c <"$folder/$file") + 1024))
    [ $size -le $limit ] || continue
    if [ $((filled + size)) -gt $limit ]; then number=$((number + 1)) filled=0; fi
    [ $number -le 3 ] || break
    echo "$file" >>"$work/list.$number"
    filled=$((filled + size))
  done
  for number in 1 2 3; do
    [ -s "$work/list.$number" ] && tar -C "$folder" -cf "$out/traces-$number.tar" -T "$work/list.$number"
  done
  kept=$(cat "$work"/list.[1-3] | grep -c .)
  say "traces: $kept kept, $(($(ls "$folder"/*.gz | wc -l) - kept)) left out for size"
}

# Reads and writes of memory that is not there.
check_memory() {
  local sanitizer log=$work/sanitizer.log most=120 status
  sanitizer=$(tool compute-sanitizer) && [ "$(time_left)" -gt 60 ] || return
  DRIFTBOUND_GPU_MODULE=$(module) within $most "$sanitizer" --report-api-errors no --error-exitcode 1 \
    "$programs/test_gpu" --no-version=true --test-case='*ordered product*,*elements move*,*Softmax*' >"$log" 2>&1
  status=$?
  if [ $status -eq 124 ] || ! grep -q 'ERROR SUMMARY' "$log"; then
    say "compute-sanitizer: no result ($(why $status $most)) $(tail -1 "$log")"
  elif [ $status -eq 0 ]; then
    say "compute-sanitizer: no error in $(grep -o 'test cases:.*' "$log")"
  else
    grep -A12 -E '^=========|ERROR' "$log" | head -60 | show
    failed "compute-sanitizer: $(why $status $most)"
  fi
}

# Products without fma must not be fused in the machine code either.
check_machine_code() {
  local cuobjdump
  cuobjdump=$(tool cuobjdump) && [ "$(time_left)" -gt 30 ] || return
  within 60 "$cuobjdump" --dump-sass "$(module)" 2>/dev/null | awk '
    /Function *: / { unfused = /TiledProductI[fd]Lb0E/; kernels += unfused }
    unfused && /[ \t][FD]FMA/ { print; ++fused }
    END { printf "%d %d\n", kernels, fused }' >"$work/machine_code"
  case $(tail -1 "$work/machine_code") in
    '0 '*) say "cuobjdump: no result" ;;
    *' 0') say "cuobjdump: no fused multiply-add in the $(cut -d ' ' -f 1 "$work/machine_code") kernels of products without fma" ;;
    *)
      grep FMA "$work/machine_code" | head -20 | show
      failed "cuobjdump: fused multiply-adds in kernels of products without fma"
      ;;
  esac
}

finish() {
  trap - TERM INT
  if [ -s "$work/failures" ]; then
    { echo; echo "FAILED:"; sed 's/^/  /' "$work/failures"; } | show
    [ ! -e "$work/bad_usage" ] || exit 3
    exit 1
  fi
  say "PASSED"
  exit 0
}

# part NAME FUNCTION: where it is wanted, with its own time limit.
part() {
  case ",$only," in *",$1,"*) ;; *) return ;; esac
  part_end=$(($(elapsed) + part_limit))
  "$2"
  part_end=''
}

run_networks() {
  local traces
  # shellcheck disable=SC2086
  each "$jobs" check_network $networks
  table_of_runs >"$out/table.txt"
  summary_of_runs | show
  if can_judge; then
    mapfile -t traces < <(traces_to_judge)
    each "$(nproc)" judge_trace "${traces[@]}"
    cat "$work"/verdicts/* >>"$out/table.txt"
    say "reports: $(grep -c ' HOLDS' "$out/table.txt") of $(ls "$work/verdicts" | wc -l) traces hold"
    report_on_device "${networks%% *}"
  else
    say "report: left out, the program here records only; judge the traces with a full build"
  fi
  archive_traces "$work/traces"
}

run_all() {
  describe_machine | show
  probe
  part tests test_device
  part bench bench_device
  part networks run_networks
  part probe probe_device
  part products run_products
  part algorithms run_algorithms
  [ -n "$quick" ] || part tools check_tools
  finish
}
check_tools() {
  check_machine_code
  check_memory
}

# ---------------------------------------------------------------------------------------------------- command line

mode=check
while [ $# -gt 0 ]; do
  case $1 in
    --pack)
      mode=pack
      case ${2:---} in --*) ;; *) carry=$(absolute "$2"); shift ;; esac
      ;;
    --build) build=1 ;;
    --quick) quick=--quick ;;
    --out | --carry | --programs | --networks | --modes | --batches | --samples | --rows | --jobs | --products | --only | --time-limit | --part-limit)
      [ $# -ge 2 ] || fail_usage "$1 needs a value"
      case $1 in
        --out) out=$(absolute "$2") ;;
        --carry) carry=$(absolute "$2") ;;
        --programs) programs=$(absolute "$2") ;;
        --networks) networks=${2//,/ } ;;
        --modes) modes="--modes $2" ;;
        --batches) batches=$2 ;;
        --only) only=$2 ;;
        --products)
          case $2 in *[!0-9,]* | '' | 0* | *,0* | ,* | *, | *,,*) fail_usage "--products $2: no list of numbers from 1 on" ;; esac
          products=$2
          ;;
        *)
          case $2 in *[!0-9]* | '' | 0*) fail_usage "$1 $2: not a number from 1 on" ;; esac
          case $1 in
            --samples) samples=$2 ;;
            --rows) rows=$2 ;;
            --jobs) jobs=$2 ;;
            --time-limit) time_limit=$2 ;;
            --part-limit) part_limit=$2 ;;
          esac
          ;;
      esac
      shift
      ;;
    *) fail_usage "unknown argument $1" ;;
  esac
  shift
done

if [ $mode = pack ]; then
  pack
  exit
fi
for part in ${only//,/ }; do
  case $part in tests | bench | networks | tools | probe | products | algorithms) ;; *) fail_usage "--only: no part '$part'; there are tests, bench, networks, tools, probe, products and algorithms" ;; esac
done
[ -n "${only//,/}" ] || fail_usage "--only needs a part: tests, bench, networks, tools, probe, products or algorithms"
largest_batch=$(echo "$batches" | tr ',' '\n' | sort -n | tail -1)
[ -n "$networks" ] || networks=$(cd "$models" && ls ./*.onnx | sed 's|^\./||; s|\.onnx$||' | tr '\n' ' ')
for network in $networks; do
  [ -f "$models/$network.onnx" ] || fail_usage "--networks: there is no $models/$network.onnx"
done
rm -f "$out"/{log.txt,table.txt,bench.jsonl,test_gpu.log,build.log} "$out"/traces-[1-4].tar  # of an earlier run
has_gpu || not_available "no NVIDIA GPU or driver here (no nvidia-smi, no /dev/nvidia*, no libcuda.so.1)"
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/rows" "$work/traces" "$work/verdicts" "$work/products" "$work/algorithms" || exit 3
: >"$out/log.txt"
trap 'failed "ended from outside"; finish' TERM INT
choose_programs
run_all

#!/usr/bin/env bash
# Searches for input that breaks what the programs read: every target of tests/fuzz, by libFuzzer
# with the address and undefined-behaviour sanitizers, from the corpus that is checked in.
#
#   tools/fuzz.sh                    30 s for each target
#   tools/fuzz.sh 600 graph plan     10 minutes for each of these two
#
# GP_FUZZ_JOBS=N  so many targets at a time; default: the machine's cores
#
# A finding ends its target, stays in build/fuzz/findings and is said at the end, with the command
# that shows it again. What a search adds to a corpus stays in build/fuzz/grown and is where the
# next one begins; its random numbers are the same each time. An input may take 2 s of CPU time,
# 1 GiB of memory, 256 MiB in one piece.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-30}
[ $# -eq 0 ] || shift
jobs=${GP_FUZZ_JOBS:-$(nproc)}
build=build/fuzz
corpus=tests/fuzz/corpus

command -v clang++-16 >/dev/null || { echo "fuzz: clang++-16 is missing: tools/install_deps.sh --checks" >&2; exit 2; }
mkdir -p $build/logs
if ! { { [ -f $build/build.ninja ] ||
         cmake --preset asan -B $build -DGP_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++-16; } &&
       cmake --build $build --target fuzz --parallel "$jobs"; } >$build/logs/build 2>&1; then
  tail -n 30 $build/logs/build >&2
  exit 2
fi
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for folder in "$corpus"/*/; do targets+=("$(basename "$folder")"); done
fi

run_target() {
  local target=$1 seconds=$2 log="build/fuzz/logs/$1.log"
  local others=()
  mkdir -p "build/fuzz/grown/$target" "build/fuzz/findings/$target"
  # The models and tensors of ONNX's own tests, where there is time to read them.
  if [ -d "$onnx_tests" ] && [ "$seconds" -ge 60 ] && [[ $target == onnx* ]]; then others=("$onnx_tests"); fi
  if build/fuzz/bin/fuzz "$target" "-max_total_time=$seconds" -seed=1 -timeout=60 -rss_limit_mb=1024 \
      -malloc_limit_mb=256 -max_len=16384 -dict=tests/fuzz/values.dict -print_final_stats=1 -report_slow_units=60 \
      "-artifact_prefix=build/fuzz/findings/$target/" "build/fuzz/grown/$target" \
      "tests/fuzz/corpus/$target" "${others[@]}" >"$log" 2>&1; then
    printf '%-16s clean: %s inputs, %s\n' "$target" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
      "$(grep -ao 'cov: [0-9]*' "$log" | tail -n 1 | sed 's/cov:/edges/')"
  else
    printf '%-16s FINDING: %s\n' "$target" \
      "$(grep -a -m 1 -E "^$target: |ERROR|runtime error" "$log" || tail -n 1 "$log")"
    return 1
  fi
}
export -f run_target
export onnx_tests=/usr/lib/python3/dist-packages/onnx/backend/test/data/node

touch $build/logs/start
printf '%s\n' "${targets[@]}" |
  xargs -P "$jobs" -I{} bash -c 'run_target "$@"' _ {} "$seconds" && exit 0
echo "fuzz: findings; each again with: build/fuzz/bin/fuzz TARGET FILE, logs in $build/logs"
find $build/findings -type f -newer $build/logs/start | sed 's/^/  /'
exit 1

#!/usr/bin/env bash
# Installs the build into a folder, builds examples/cpp against that and nothing else, and runs
# them.
#
#   examples.sh CMAKE BUILD EXAMPLES RUNTIME(ON|OFF)
set -euo pipefail
cmake=$1 build=$2 examples=$3 runtime=$4
work=$build/install-test
rm -rf "$work"
mkdir -p "$work"

step() {
  local log=$work/$1.log
  shift
  "$@" >"$log" 2>&1 || { cat "$log"; echo "failed: $*"; exit 1; }
}
# What the example prints has this line, or one that matches.
expect() {
  grep -qE "$2" "$work/$1.log" && return
  cat "$work/$1.log"
  echo "$1: no line matches: $2"
  exit 1
}

step install "$cmake" --install "$build" --prefix "$work/prefix"
# As an installed program finds its worker: beside it.
step version "$work/prefix/bin/graphpipe" --version
expect version "^graphpipe [0-9]+\.[0-9]+\.[0-9]+$"
step pages bash -c '. "$1/bash-completion/completions/graphpipe" && complete -p graphpipe &&
  grep -q "^\.TH GRAPHPIPE 1" "$1/man/man1/graphpipe.1" && grep -q "^#compdef graphpipe" "$1"/zsh/*/_graphpipe &&
  grep -q "^complete -c graphpipe" "$1/fish/vendor_completions.d/graphpipe.fish"' pages "$work/prefix/share"
! grep -rn '#include "' "$work/prefix/include/graphpipe" || { echo "an installed header looks beside itself"; exit 1; }
! grep -rnE '#include <(torch|ATen|c10)' "$work/prefix/include/graphpipe" || { echo "an installed header needs libtorch"; exit 1; }

step configure "$cmake" -G Ninja -S "$examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$work/prefix"
step build "$cmake" --build "$work/examples" --parallel 2
step plan_by_code "$work/examples/plan_by_code"
expect plan_by_code "^[2-4] stages, depth [2-4]$"
if ldd "$work/examples/plan_by_code" | grep -i torch; then
  echo "plan_by_code links libtorch"
  exit 1
fi
[ "$runtime" = ON ] || exit 0
step train_onnx "$work/examples/train_onnx" "$examples/twins.onnx"
expect train_onnx "^test accuracy 0\.9|^test accuracy 1,"
step custom_operator "$work/examples/custom_operator"
expect custom_operator "^the same, to 1e-5$"
expect custom_operator "^custom\{function=\"swish\"\}.*: forward "
echo "three examples built against $work/prefix and run"

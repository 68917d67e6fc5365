#!/usr/bin/env bash
# From nothing to a trained four-branch model: installs what is missing, builds, plans
# for four CPU ranks, trains on real data, compares with one device, and writes a report.
#
#   ./demo.sh           until the validation error stops improving
#   ./demo.sh --short   a few hundred iterations, as the continuous integration does
set -euo pipefail
cd "$(dirname "$0")"
short=""
case "${1:-}" in
  "") ;;
  --short) short=yes ;;
  *) echo "usage: ./demo.sh [--short]" >&2; exit 2 ;;
esac

tools/build.sh --target graphpipe --target graphpipe-worker
bin=build/${GP_PRESET:-full}/bin
graphpipe=$bin/graphpipe
work=build/demo
mkdir -p "$work"
export PATH="$PWD/$bin:$PATH"

heading() { printf '\n== %s\n\n' "$1"; }
# Prints the command as one would type it, then runs it.
run() { printf '$ graphpipe %s\n' "$*"; "$graphpipe" "$@"; }

model=movielens
optimizer=adam
micro_batches=32,64,128,256
if ! GRAPHPIPE="$graphpipe" tools/fetch_data.sh movielens; then
  echo "MovieLens could not be had here; scikit-learn's digits in four quadrants stand in for it."
  model=digits
  micro_batches=8,16,32,64
  GRAPHPIPE="$graphpipe" tools/fetch_data.sh digits
fi
if [ "$model" = movielens ]; then
  mini_batch=1024
  recipe=(--data movielens --optimizer adam --lr 0.003 --seed 1)
else
  mini_batch=128
  recipe=(--data digits --optimizer adam --lr 0.003 --seed 1)
fi
length=()
[ -z "$short" ] || length=(--iterations 60)

heading "The model: four branches, four kinds of input"
run show "$model"

heading "What its operators cost on this machine, with four ranks busy"
run profile "$model" --micro-batch "$micro_batches" --ranks 4 -o "$work/profile.json"

heading "A graph pipeline for four ranks, and GPipe's chain beside it"
problem=("$model" --cluster local:4 --mini-batch "$mini_batch" --micro-batch "$micro_batches"
         --options none --all-devices --optimizer "$optimizer" --profile "$work/profile.json")
run plan "${problem[@]}" -o "$work/graph.plan.json"
"$graphpipe" plan "${problem[@]}" --planner gpipe -o "$work/chain.plan.json" >"$work/chain.plan.txt"
run compare "${problem[@]}" --planners graphpipe,gpipe

heading "Who does what when (simulated; every rank on a row)"
run simulate "$work/graph.plan.json"
run verify "$work/graph.plan.json"

heading "Training on four worker processes"
run train "$work/graph.plan.json" "${recipe[@]}" "${length[@]}" --trace "$work/graph.trace.json" | tee "$work/graph.txt"

heading "The same on a single device"
micro_batch=$(sed -n 's/^ *"micro_batch": \([0-9]*\),$/\1/p' "$work/graph.plan.json" | head -n 1)
run plan "$model" --cluster local:1 --mini-batch "$mini_batch" --micro-batch "$micro_batch" \
  --optimizer "$optimizer" --profile "$work/profile.json" -o "$work/single.plan.json" >"$work/single.plan.txt"
run train "$work/single.plan.json" "${recipe[@]}" "${length[@]}" | tee "$work/single.txt"

heading "In short"
for line in "graph pipeline, 4 ranks:$work/graph.txt" "single device:$work/single.txt"; do
  printf '%-26s %s\n' "${line%%:*}" "$(grep -h '^test ' "${line#*:}" | tr '\n' ' ')"
done
grep -h '^bias-only' "$work/graph.txt" || true

heading "The report: both plans, and what was measured beside what was predicted"
if run report "$work/graph.plan.json" "$work/chain.plan.json" --measured "$work/graph.trace.json" \
    --profile "$work/profile.json" -o "$work/report.html"; then
  echo "Open $PWD/$work/report.html in a browser, and $work/graph.trace.json in Perfetto."
else
  echo "There is no report, as said above. $work/graph.trace.json opens in Perfetto."
fi

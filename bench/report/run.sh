#!/usr/bin/env bash
# How fast the report's page is with 64 ranks and 256 micro-batches: bench/report/run.sh [PRESET]
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$PWD/build/${1:-full}/bin/graphpipe
folder=$PWD/build/bench-report
mkdir -p "$folder"
cp tests/report/browser.mjs tests/report/package.json tests/report/package-lock.json tests/report/.npmrc bench/report/measure.mjs "$folder"
cd "$folder"
[ -e node_modules ] || npm ci --no-audit --no-fund --loglevel=error
[ -e plan.json ] || "$program" plan mmt:branches=8,layers=8 --cluster summit:64 --mini-batch 1024 --micro-batch 4 --options none -o plan.json >plan.txt
head -n 3 plan.txt
time "$program" report plan.json -o report.html
ls -l report.html | awk '{print $5 " bytes"}'
for _ in 1 2 3; do node measure.mjs "$folder/report.html"; done

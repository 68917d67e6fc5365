#!/usr/bin/env bash
# Runs page_test.mjs where there is a browser: run.sh GRAPHPIPE FOLDER. 77: skipped, with a word.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$1 folder=$2
skip() { echo "skipped: $1"; exit 77; }
[ -x "${CHROMIUM:-/usr/bin/chromium}" ] || skip "no Chromium (Debian's package chromium)"
command -v node >/dev/null || skip "no Node.js"
command -v npm >/dev/null || skip "no npm"
mkdir -p "$folder"
cp "$here"/*.mjs "$here"/*.json "$here/.npmrc" "$folder"
cd "$folder"
if [ ! -e node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  npm ci --no-audit --no-fund --loglevel=error || skip "npm ci failed"
fi
node page_test.mjs "$program" "$folder"

#!/usr/bin/env bash
# Installs what is missing and builds. demo.sh, test.sh and .ci/run come here; the
# preset is $GP_PRESET (full), the programs land in build/PRESET/bin.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${GP_PRESET:-full}
tools/install_deps.sh
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake --preset "$preset" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
echo "building (preset $preset)"
if [ -t 1 ]; then
  cmake --build --preset "$preset" "$@"
else
  cmake --build --preset "$preset" "$@" >"$log" 2>&1 || { tail -n 60 "$log" >&2; exit 1; }
fi

#!/usr/bin/env bash
# Installs what is missing, builds, runs every test. Arguments go to ctest: -L planners
set -euo pipefail
cd "$(dirname "$0")"
tools/build.sh
exec ctest --preset "${GP_PRESET:-full}" "$@"

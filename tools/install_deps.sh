#!/usr/bin/env bash
# Installs what is missing of the packages that graphpipe builds, runs and is tested
# with: the one list of them. Quiet and quick when all is there.
#
#   tools/install_deps.sh            to build, run and test
#   tools/install_deps.sh --checks   and what .ci/run uses beside: formatter, linter, browser, PyTorch
#   tools/install_deps.sh --site     what tools/build_site.sh uses, and nothing else; 8 MB
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache git ca-certificates python3
  libfmt-dev nlohmann-json3-dev libcli11-dev libgtest-dev libgmock-dev
  libtorch-dev libgloo-dev
  libonnx-dev libprotobuf-dev
  libmimalloc-dev       # optional: searches take a third less time
  libonnx-testdata      # the conformance tests of ONNX's own, 21 MB
  libopenblas0-pthread  # the reference BLAS, which Debian takes otherwise, is 17 times slower
  r-base-core           # reads MovieLens out of r-cran-dslabs
)
if [ "${1:-}" = "--checks" ]; then
  packages+=(clang-format clang-tidy-16
    clang-16 libclang-rt-16-dev  # tools/fuzz.sh: libFuzzer and the sanitizers; 4 MB beside clang-tidy's
    iproute2        # tests/hosts makes network namespaces with it
    openmpi-bin openssh-client openssh-server  # tests/launchers starts ranks by them
    chromium        # tests/report looks at the report's page in it; 122 MB, 40 s
    python3-torch)  # what python/graphpipe_export.py is held against; 27 MB with what it needs
fi
if [ "${1:-}" = "--site" ]; then
  packages=(python3-sphinx python3-myst-parser furo python3-breathe doxygen)
fi
# Bundle the page of graphpipe report; an npm from elsewhere does as well as Debian's.
[ "${1:-}" = "--site" ] || command -v npm >/dev/null || packages+=(nodejs npm)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "install_deps: these packages are missing: ${missing[*]}; install them as root" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get update &&
       "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "install_deps: apt-get failed; the lines above say why" >&2
  exit 1
fi

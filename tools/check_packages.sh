#!/usr/bin/env bash
# Makes the Debian packages, installs them in a clean chroot of this machine's own release, and
# uses them there: plans, trains, and builds and runs the examples against the installed library.
#
#   tools/check_packages.sh [BUILD]      BUILD: a built tree (default build/full)
#
# Needs root (debootstrap, chroot). Packages come from where this machine's apt has them. The
# chroot is a temporary folder, of 3 GB, and removed at the end; KEEP=1 keeps it.
set -euo pipefail
. "$(dirname "$0")/chroot.sh"
chroot_start "$0" "$@"
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build/full}")
[ -f "$build/CPackConfig.cmake" ] || { echo "check_packages: $build is no built tree" >&2; exit 2; }
command -v dpkg-shlibdeps >/dev/null || apt-get install -y -qq --no-install-recommends dpkg-dev fakeroot >/dev/null

work=$(mktemp -d /var/tmp/graphpipe-packages.XXXXXX)
root=$work/root
trap '[ -n "${KEEP:-}" ] && echo "$root is kept" || chroot_remove "$work"' EXIT
step() { printf '\n--- %s (%s s)\n' "$1" "$SECONDS"; }
quietly() { "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; exit 1; }; }

step "packages"
quietly cmake --build "$build"  # what is stale would be packed as it is
(cd "$work" && quietly cpack -G DEB --config "$build/CPackConfig.cmake")
for package in "$work"/*.deb; do
  echo "$(basename "$package"): $(dpkg-deb -f "$package" Depends)"
done

step "a clean chroot"
quietly chroot_make "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root"
chroot_size "$root"

step "installation"
mkdir "$root/packages"
cp "$work"/*.deb "$root/packages/"
inside() { chroot_run "$root" "$@"; }
quietly inside sh -c 'apt-get install -y --no-install-recommends /packages/graphpipe_*.deb libopenblas0-pthread'
chroot_size "$root"

step "use"
inside graphpipe --version
inside sh -c 'cd /tmp && graphpipe plan movielens --cluster local:2 --mini-batch 64 --micro-batch 16 \
  --options none --all-devices -o plan.json >plan.txt && tail -n 12 plan.txt &&
  graphpipe train plan.json --data synthetic --lr 0.01 --iterations 5 | tail -n 12'

inside bash -c '. /usr/share/bash-completion/completions/graphpipe && complete -p graphpipe'
inside grep -m 1 "^.TH" /usr/share/man/man1/graphpipe.1

step "examples against the installed library"
quietly inside sh -c 'apt-get install -y --no-install-recommends /packages/libgraphpipe-dev_*.deb g++ cmake make'
inside sh -c 'set -e; cp -r /usr/share/doc/graphpipe/examples/cpp /tmp/cpp
  cmake -S /tmp/cpp -B /tmp/build >/tmp/log 2>&1 && cmake --build /tmp/build >>/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
  /tmp/build/plan_by_code | tail -n 1; /tmp/build/train_onnx /tmp/cpp/twins.onnx | tail -n 1; /tmp/build/custom_operator | tail -n 1'
chroot_size "$root"

step "removal"
quietly inside apt-get remove -y graphpipe libgraphpipe-dev
if inside sh -c 'ls /usr/bin/graphpipe* /usr/include/graphpipe /usr/lib/*/graphpipe /usr/share/man/man1/graphpipe* 2>/dev/null | grep .'; then
  echo "check_packages: files are left behind" >&2
  exit 1
fi
step "done"

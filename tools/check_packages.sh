#!/usr/bin/env bash
# Makes the Debian packages, installs them in a clean chroot of this machine's own release, and
# uses them there: plans, trains, and builds and runs the examples against the installed library.
#
#   tools/check_packages.sh [BUILD]      BUILD: a built tree (default build/full)
#
# Needs root (debootstrap, chroot). Packages come from where this machine's apt has them. The
# chroot is a temporary folder, of 3 GB, and removed at the end; KEEP=1 keeps it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build/full}")
[ "$(id -u)" = 0 ] || { echo "check_packages: run as root; it makes a chroot" >&2; exit 2; }
[ -f "$build/CPackConfig.cmake" ] || { echo "check_packages: $build is no built tree" >&2; exit 2; }
for tool in debootstrap dpkg-shlibdeps; do
  command -v $tool >/dev/null && continue
  apt-get install -y -qq --no-install-recommends debootstrap dpkg-dev fakeroot >/dev/null
done

work=$(mktemp -d /var/tmp/graphpipe-packages.XXXXXX)
root=$work/root
cleanup() {
  for mount in proc dev; do
    if mountpoint -q "$root/$mount"; then umount "$root/$mount" || umount -l "$root/$mount"; fi
  done
  # What is mounted still is this machine's own.
  if grep -q " $work/" /proc/mounts; then
    echo "check_packages: $work is left, it has mounts" >&2
  elif [ -z "${KEEP:-}" ]; then
    rm -rf --one-file-system "$work"
  fi
}
trap cleanup EXIT
step() { printf '\n--- %s (%s s)\n' "$1" "$SECONDS"; }
quietly() { "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; exit 1; }; }

step "packages"
(cd "$work" && quietly cpack -G DEB --config "$build/CPackConfig.cmake")
for package in "$work"/*.deb; do
  echo "$(basename "$package"): $(dpkg-deb -f "$package" Depends)"
done

step "a clean chroot"
# The first archive of apt's that has the release and main.
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
site=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(SITE)' |
       awk -v release="$release" '$1 == release && $2 == "main" { print $3; exit }')
[ -n "$site" ] || { echo "check_packages: apt has no archive of $release here" >&2; exit 1; }
quietly debootstrap --variant=minbase "$release" "$root" "$site"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
cp -a /etc/apt/sources.list* /etc/apt/apt.conf.d /etc/apt/auth.conf.d /etc/apt/trusted.gpg.d "$root/etc/apt/" 2>/dev/null || true
cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
du -sxh "$root" 2>/dev/null | cut -f1

step "installation"
mkdir "$root/packages"
cp "$work"/*.deb "$root/packages/"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
quietly inside apt-get update
quietly inside sh -c 'apt-get install -y --no-install-recommends /packages/graphpipe_*.deb libopenblas0-pthread'
du -sxh "$root" 2>/dev/null | cut -f1

step "use"
inside graphpipe --version
inside sh -c 'cd /tmp && graphpipe plan movielens --cluster local:2 --mini-batch 64 --micro-batch 16 \
  --options none --all-devices -o plan.json >plan.txt && tail -n 12 plan.txt &&
  graphpipe train plan.json --data synthetic --iterations 5 | tail -n 12'

step "examples against the installed library"
quietly inside sh -c 'apt-get install -y --no-install-recommends /packages/libgraphpipe-dev_*.deb g++ cmake make'
inside sh -c 'set -e; cp -r /usr/share/doc/graphpipe/examples/cpp /tmp/cpp
  cmake -S /tmp/cpp -B /tmp/build >/tmp/log 2>&1 && cmake --build /tmp/build >>/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
  /tmp/build/plan_by_code | tail -n 1; /tmp/build/train_onnx /tmp/cpp/twins.onnx | tail -n 1; /tmp/build/custom_operator | tail -n 1'
du -sxh "$root" 2>/dev/null | cut -f1

step "removal"
quietly inside apt-get remove -y graphpipe libgraphpipe-dev
if inside sh -c 'ls /usr/bin/graphpipe* /usr/include/graphpipe /usr/lib/*/graphpipe 2>/dev/null | grep .'; then
  echo "check_packages: files are left behind" >&2
  exit 1
fi
step "done"

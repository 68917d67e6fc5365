#!/usr/bin/env bash
# What a newcomer meets: a clean Debian, a clone of the last commit, ./demo.sh and ./test.sh.
# Prints how long each took, the processor's time, and the disk.
#
#   tools/newcomer.sh [RELEASE]     bookworm (Debian 12, the default) or trixie (Debian 13)
#
# Needs root (debootstrap, chroot), and the network that apt and npm need; what is built here is
# not seen in there. The chroot is a temporary folder and removed at the end; KEEP=1 keeps it.
# What the scripts print is kept in build/newcomer/RELEASE.
set -euo pipefail
. "$(dirname "$0")/chroot.sh"
chroot_start "$0" "$@"
cd "$(dirname "$0")/.."
release=${1:-bookworm}

logs=build/newcomer/$release
mkdir -p "$logs"
work=$(mktemp -d /var/tmp/graphpipe-newcomer.XXXXXX)
root=$work/root
trap '[ -n "${KEEP:-}" ] && echo "$root is kept" || chroot_remove "$work"' EXIT
TIMEFORMAT="    %R s, of the processors %U s + %S s"

echo "--- a clean $release"
chroot_make "$release" "$root" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; exit 1; }
git clone -q --no-hardlinks . "$root/root/graphpipe"
echo "    $(. "$root/etc/os-release" && echo "$PRETTY_NAME"), $(chroot_size "$root"), commit $(git rev-parse --short HEAD)"

failed=0
for script in demo.sh test.sh; do
  echo "--- ./$script"
  time chroot_run "$root" sh -c "cd ~/graphpipe && exec ./$script" >"$logs/$script.log" 2>&1 || {
    failed=1
    echo "    failed: "
    tail -n 60 "$logs/$script.log"
  }
  echo "    $(chroot_size "$root") in all, of it the clone $(chroot_size "$root/root/graphpipe"), the compiler's cache $(chroot_size "$root/root/.cache")"
done
echo "--- the last words of both"
tail -n 8 "$logs/demo.sh.log" "$logs/test.sh.log"
exit $failed

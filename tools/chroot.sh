# A clean chroot of Debian, for scripts to source. Needs root, debootstrap, and an apt that works:
# packages come from where this machine's apt has them.
#
#   chroot_start "$0" "$@"      first of all: goes on in mounts of its own, which end with the script
#   chroot_make RELEASE ROOT    bookworm, trixie
#   chroot_run ROOT COMMAND...  as root, with a new environment
#   chroot_size ROOT            what it holds, as 1.2G
#   chroot_remove FOLDER        the folder with chroots in it

chroot_start() {
  [ "$(id -u)" = 0 ] || { echo "$1: run as root; it makes a chroot" >&2; exit 2; }
  [ -n "${GP_OWN_MOUNTS:-}" ] || GP_OWN_MOUNTS=1 exec unshare --mount --propagation private "$@"
  trap 'exit 1' HUP INT TERM  # and so what is to be done at the end
  command -v debootstrap >/dev/null ||
    apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
}

# The archives of main that apt has here, as those of another release: "SITE SUITE" a line.
chroot_archives() {
  local here
  here=$(. /etc/os-release && echo "$VERSION_CODENAME")
  apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' "Created-By: Packages" |
    awk -v here="$here" -v release="$1" '
      $3 == "main" && sub("^" here, release, $2) && !seen[$1 $2]++ { print $1, $2 }'
}

chroot_make() {
  local release=$1 root=$2 site
  site=$(chroot_archives "$release" | awk -v release="$release" '$2 == release { print $1; exit }')
  [ -n "$site" ] || { echo "apt has no archive of Debian here" >&2; return 1; }
  mkdir -p "$root/etc/dpkg/dpkg.cfg.d"
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/temporary"  # nothing in there must outlive a crash
  debootstrap --variant=minbase --include=ca-certificates "$release" "$root" "$site" || return 1
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/dev/shm"
  chroot_archives "$release" | sed 's/^/deb /; s/$/ main/' >"$root/etc/apt/sources.list"
  # How this machine reaches its archives: proxies, keys, names, certificates of its own.
  cp -a /etc/apt/apt.conf.d /etc/apt/auth.conf.d /etc/apt/trusted.gpg.d "$root/etc/apt/" 2>/dev/null || true
  cp /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
  cp -a /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
  chroot_run "$root" update-ca-certificates && chroot_run "$root" apt-get update
}

chroot_run() {
  local root=$1
  shift
  # What OpenBLAS must be told of this processor holds in there too.
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive ${OPENBLAS_CORETYPE:+OPENBLAS_CORETYPE=$OPENBLAS_CORETYPE} "$@"
}

chroot_size() { du -shx --exclude="$1/proc/*" --exclude="$1/dev/*" "$1" | cut -f1; }

chroot_remove() {
  local mount
  for mount in $(awk -v folder="$1/" 'index($2, folder) == 1 { print $2 }' /proc/mounts | sort -r); do
    umount "$mount" || umount -l "$mount" || true
  done
  # What is mounted still is this machine's own.
  if grep -q " $1/" /proc/mounts; then
    echo "$1 is left, it has mounts" >&2
  else
    rm -rf --one-file-system "$1"
  fi
}

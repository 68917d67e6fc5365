#!/bin/sh
# Puts a data set where graphpipe looks for it: ${GRAPHPIPE_DATA:-$HOME/.cache/graphpipe/data}/NAME.
#
#   tools/fetch_data.sh movielens|digits
#
# The raw files come out of Debian packages, which are unpacked to a temporary folder and
# not installed. Quiet and quick when the data set is there. Exits with 1 and one line that
# says why where it can't be had, with 2 on a wrong argument.
set -eu

name=${1:-}
case $name in
  movielens) package=r-cran-dslabs ;;
  digits) package=python3-sklearn ;;
  *)
    echo "usage: tools/fetch_data.sh movielens|digits" >&2
    exit 2
    ;;
esac

fail() {
  echo "fetch_data: $name: $1" >&2
  exit 1
}

root=${GRAPHPIPE_DATA:-$HOME/.cache/graphpipe/data}
target=$root/$name
[ -f "$target/manifest.json" ] && exit 0
[ ! -e "$target" ] || fail "$target is there without a manifest.json; remove it"

find_graphpipe() {
  if [ -n "${GRAPHPIPE:-}" ]; then
    echo "$GRAPHPIPE"
    return
  fi
  # The newest of the built ones.
  ls -t "$(dirname "$0")"/../build/*/bin/graphpipe 2>/dev/null | head -n 1 | grep . && return
  command -v graphpipe
}
graphpipe=$(find_graphpipe)
[ -x "$graphpipe" ] || fail "no graphpipe program; build it, or set GRAPHPIPE to it"

for tool in apt-get dpkg; do
  command -v $tool >/dev/null || fail "no $tool here; the raw files come from Debian packages"
done
if [ "$name" = movielens ]; then
  command -v Rscript >/dev/null || fail "no Rscript; tools/install_deps.sh installs it (r-base-core)"
fi

mkdir -p "$root" || fail "cannot make $root"
root=$(cd "$root" && pwd)
target=$root/$name
case $graphpipe in /*) ;; *) graphpipe=$(pwd)/$graphpipe ;; esac
# Beside the target, so that the last step is a rename.
work=$(mktemp -d "$root/.$name.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work"

# apt warns when it cannot give root's folder to its own user; that does no harm.
if ! apt-get download -qq "$package" >download.log 2>&1; then
  fail "the package $package cannot be downloaded: $(grep '^E:' download.log | head -n 1)"
fi
dpkg -x "$package"_*.deb unpacked || fail "the package $package cannot be unpacked"

if [ "$name" = movielens ]; then
  db=unpacked/usr/lib/R/site-library/dslabs/data/Rdata
  [ -f $db.rdb ] || fail "the package $package has no $db.rdb"
  # C.UTF-8: titles keep their letters; scipen: whole numbers stay written out.
  LC_ALL=C.UTF-8 Rscript --vanilla -e "
    options(scipen = 100)
    e <- new.env()
    lazyLoad('$db', envir = e)
    write.table(get('movielens', e), 'raw', sep = '\t', quote = FALSE, row.names = FALSE)" \
    >rscript.log 2>&1 || fail "Rscript: $(tail -n 1 rscript.log)"
else
  csv=unpacked/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz
  gunzip -c $csv >raw || fail "the package $package has no $csv"
fi

"$graphpipe" data "$name" --from raw -o ready || fail "the raw file cannot be converted"
# Another run may have been quicker.
mv -T ready "$target" 2>/dev/null || [ -f "$target/manifest.json" ] || fail "cannot make $target"

#!/usr/bin/env bash
# Builds the documentation as a static site, by Sphinx with MyST, the headers' part by Doxygen:
# build/site/html. Installs both where they are missing.
#
#   tools/build_site.sh [GRAPHPIPE]     GRAPHPIPE: a built program, whose help becomes the
#                                       reference of commands (default: the newest in build/)
set -euo pipefail
cd "$(dirname "$0")/.."
graphpipe=${1:-$(ls -t build/*/bin/graphpipe 2>/dev/null | head -n 1)}
[ -x "$graphpipe" ] || { echo "build_site: no graphpipe program; build it, or name one" >&2; exit 2; }
tools/install_deps.sh --site
site=build/site
rm -rf "$site"
mkdir -p "$site/source"
# A copy of what the pages link to, in which pages can be added.
git ls-files -z --cached --others --exclude-standard -- '*.md' 'docs/*' src include examples bench python tools tests CMakeLists.txt demo.sh |
  xargs -0 cp --parents -t "$site/source"
graphpipe=$(realpath "$graphpipe")
site=$(realpath "$site")
cd "$site/source"
mv docs/site/index.md index.md

# The commands, in the program's own words.
{
  printf '# Commands\n\nWhat `graphpipe help` says. Every command has `--json`, whose fields are in [formats](../formats.md#command-output).\n'
  for command in $("$graphpipe" help --completion fish | sed -n 's/.*use_subcommand -a \([a-z]*\) .*/\1/p'); do
    printf '\n## graphpipe %s\n\n```text\n' "$command"
    "$graphpipe" help "$command" | cut -c1-400
    printf '```\n'
  done
} >docs/site/commands.md

# The headers that graphpipe.h includes, each with its words.
mapfile -t headers < <(sed -n 's/^#include "\(.*\)"/\1/p' include/graphpipe/graphpipe.h)
{
  cat docs/site/Doxyfile
  printf 'INPUT ='
  for header in "${headers[@]}"; do [ ! -f "src/$header" ] || printf ' src/%s' "$header"; done
  printf ' include/graphpipe/graphpipe.h\n'
} >"$site/Doxyfile"
doxygen "$site/Doxyfile"
{
  printf '# Headers\n\n`#include <graphpipe/graphpipe.h>` is all of these ([as a C++ library](../api.md) has how to link, and examples).\n'
  for header in "${headers[@]}"; do
    [ -f "src/$header" ] || continue
    printf '\n## %s\n\n```{doxygenfile} %s\n```\n' "$header" "$header"
  done
} >docs/site/headers.md

sphinx-build -q -b html -c docs/site . "$site/html" "${@:2}"
echo "written to ${site#"$PWD/"}/html: open index.html in a browser"

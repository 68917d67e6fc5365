#!/usr/bin/env python3
"""Every link of a Markdown file, and every path of the tree that it names, exists; the site's table of
contents has every page of docs/."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)]*)?\)")
GENERATED = {"/docs/site/commands", "/docs/site/headers"}  # by tools/build_site.sh
PATH = re.compile(r"`((?:src|docs|tools|tests|bench|examples|cmake)/[\w./{},-]*[\w}/])`")


def expand(path):
    """a/{b,c}.h names two files."""
    match = re.search(r"\{([^}]*)\}", path)
    if not match:
        return [path]
    return [path[: match.start()] + word.strip() + path[match.end() :] for word in match.group(1).split(",")]


def main():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    faults = []
    for name in listed:
        page = ROOT / name
        text = page.read_text()
        for target, _ in LINK.findall(text):
            if "://" not in target and not (page.parent / target).exists():
                faults.append(f"{name}: link to {target}, which is not there")
        for named in PATH.findall(text):
            for path in expand(named):
                if not (ROOT / path).exists():
                    faults.append(f"{name}: names {path}, which is not there")
        for mark in re.findall(r"\bTBD\b|\bTODO\b", text):
            faults.append(f"{name}: says {mark}")
    entries = set(re.findall(r"^(/\S+)$", (ROOT / "docs/site/index.md").read_text(), re.M)) - GENERATED
    for entry in sorted(entries):
        if not (ROOT / f"{entry[1:]}.md").exists():
            faults.append(f"docs/site/index.md: names {entry}, which is not there")
    for page in sorted((ROOT / "docs").glob("*.md")):
        if f"/docs/{page.stem}" not in entries:
            faults.append(f"docs/site/index.md: leaves out {page.name}")
    for fault in faults:
        print(fault)
    print(f"check_docs: {len(listed)} pages, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

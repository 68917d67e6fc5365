#!/usr/bin/env python3
"""Runs the commands of a page: run.py BIN PYTHON PAGE, with the programs in the folder BIN, and
PYTHON for python3.

Blocks fenced as `sh` are commands, run by bash; of `console` the lines that start with "$ " are,
and what follows is what they print, standard output and error together. In there a line "..."
stands for any lines, "..." within a line for anything. All blocks of a page run one after the
other in one temporary folder. A comment right before a block says how the test differs from what
the reader sees, a directive a line (or between " // "):

    <!-- test:
    file NAME = PATH               a copy of PATH, of the tree, lies in the folder (or a folder)
    before: COMMAND                what the page leaves out
    TEXT becomes TEXT              a shorter variant, say
    not run: REASON: PATH          what runs it, of the tree: a test or a script
    printed by: COMMAND            of a block of neither kind: COMMAND prints its lines, in order
    saved as: NAME                 of a block of neither kind: the reader is to save it
    needs: COMMAND                 anywhere: without what makes it succeed the page is skipped
    -->

Figures that depend on the clock are "...", as in tests/golden/. UPDATE_GOLDEN=1 rewrites what
`console` blocks show but where other dots stand; look at the difference.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
BLOCK = re.compile(r"(?:^<!-- test:(?P<mark>.*?)-->\n\n?)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$",
                   re.M | re.S)


# Of which a page shows dots: how long a search took.
MASKS = [(re.compile(r"(searched in )[\d.]+ \w+"), r"\1..."),
         (re.compile(r"(Searching took )[\d.]+ \w+(, judging )[\d.]+ \w+"), r"\1...\2...")]


class Fault(Exception):
    pass


class Page:
    def __init__(self, programs, python, folder):
        self.folder = folder / "page"
        self.folder.mkdir()
        (folder / "python3").symlink_to(python)
        self.environment = dict(os.environ, PATH=f"{programs}:{folder}:{os.environ['PATH']}",
                                NO_COLOR="1", OMP_NUM_THREADS="1")
        self.ran = 0

    def start(self, command):
        return subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=self.folder, text=True,
                              env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, timeout=200, check=False)

    def run(self, command):
        """What it prints; a command that fails is a fault."""
        done = self.start(command)
        self.ran += 1
        if done.returncode != 0:
            raise Fault(f"exit {done.returncode} of\n{command}\n{done.stdout}")
        return done.stdout

    def prepare(self, mark):
        """Follows the directives; substitutions, or None where the block is not to be run."""
        becomes = []
        for line in directives(mark):
            if line.startswith("file "):
                name, source = line[len("file "):].split(" = ")
                target = self.folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, target)
            elif line.startswith("before: "):
                self.run(line[len("before: "):])
            elif line.startswith("not run: "):
                if not (ROOT / line.rsplit(": ", 1)[1]).exists():
                    raise Fault(f"there is no {line.rsplit(': ', 1)[1]}: {line}")
                return None
            elif " becomes " in line:
                becomes.append(line.split(" becomes "))
            else:
                raise Fault(f"no directive: {line}")
        return becomes

    def block(self, match):
        """The block's text, with what is printed now."""
        mark, kind, text = match["mark"] or "", match["kind"], match["text"]
        if kind not in ("sh", "console"):
            for word, _, value in (line.partition(": ") for line in directives(mark)):
                if word == "saved as":
                    (self.folder / value).write_text(text)
                elif word == "printed by":
                    check_lines(text, self.run(value), value)
            return text
        becomes = self.prepare(mark)
        if becomes is None:
            return text
        for old, new in becomes:
            if old not in text:
                raise Fault(f"{old} is not in\n{text}")
            text = text.replace(old, new)
        if kind == "sh":
            self.run(text)
            return match["text"]
        return "".join(self.session(part) for part in re.split(r"^(?=\$ )", text, flags=re.M) if part)

    def session(self, part):
        """A command of a session, which may go on in lines after a backslash, and its output."""
        command, shown = re.fullmatch(r"\$ ((?:[^\n]*\\\n)*[^\n]*\n)(.*)", part, re.S).groups()
        printed = "\n".join(line.rstrip() for line in self.run(command).strip("\n").splitlines())
        for mask, replacement in MASKS:
            printed = mask.sub(replacement, printed)
        if pattern(shown).fullmatch(printed):
            return part
        by_hand = "..." in re.sub(r"(searched in|Searching took|, judging) \.\.\.", "", shown)
        if os.environ.get("UPDATE_GOLDEN") and not by_hand:
            return f"$ {command}{printed}\n"
        raise Fault(f"$ {command}shows\n{shown}and prints\n{printed}")


def directives(mark):
    return [line.strip() for line in re.split(r"\n| // ", mark) if line.strip()]


def pattern(shown):
    text = re.escape(shown.strip("\n"))
    dots = re.escape("...")
    lines = [r"[\s\S]*" if line == dots else line.replace(dots, ".*")
             for line in text.replace("\\\n", "\n").split("\n")]
    return re.compile("\n".join(lines))


def check_lines(shown, printed, command):
    rest = iter(printed.splitlines())
    for line in shown.splitlines():
        if line.strip() == "..." or any(line.rstrip() == other.rstrip() for other in rest):
            continue
        raise Fault(f"`{command}` does not print the line\n{line}\nbut\n{printed}")


def main():
    programs, python, path = (pathlib.Path(word).absolute() for word in sys.argv[1:])
    text = path.read_text()
    with tempfile.TemporaryDirectory() as folder:
        page = Page(programs, python, pathlib.Path(folder))
        for need in re.findall(r"^\s*needs: (.*?)\s*$", text, re.M):
            if page.start(need).returncode != 0:
                print(f"{path.name}: skipped, since this fails: {need}")
                return SKIPPED
        try:
            parts, end = [], 0
            for match in BLOCK.finditer(text):
                parts += [text[end:match.start("text")], page.block(match)]
                end = match.end("text")
        except Fault as fault:
            print(f"{path.name}: {fault}")
            return 1
    updated = "".join(parts) + text[end:]
    if updated != text:
        path.write_text(updated)
        print(f"rewrote {path.name}")
    print(f"{path.name}: {page.ran} commands and blocks")
    return 0


if __name__ == "__main__":
    sys.exit(main())

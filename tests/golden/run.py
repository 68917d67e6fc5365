#!/usr/bin/env python3
"""Runs the commands of a golden file and compares their whole output.

A file is a session: lines that start with "$ " are commands (graphpipe, and the few
below that look at files), what follows is what they print, standard output and
error together, and "[exit N]" where the status is not 0. UPDATE_GOLDEN=1 rewrites
the file; look at the difference before you commit it. $EXAMPLES, $INPUTS and
$EXPORTED stand for examples/, tests/golden/inputs/ and tests/onnx/exported/.

Figures that depend on the clock are masked as "...".
"""
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = {"$EXAMPLES": str(HERE.parents[1] / "examples"), "$INPUTS": str(HERE / "inputs"),
           "$EXPORTED": str(HERE.parent / "onnx" / "exported")}
MASKS = [
    (re.compile(r'("(?:search_s|judge_s)": )[-\d.e+]+'), r"\1..."),
    (re.compile(r"(searched in )[\d.]+ \w+"), r"\1..."),
    (re.compile(r"(Searching took )[\d.]+ \w+(, judging )[\d.]+ \w+"), r"\1...\2..."),
]


def run_command(line, program, folder):
    words = shlex.split(line)
    for name, folder_path in FOLDERS.items():
        words = [w.replace(name, folder_path) for w in words]
    if words[0] == "graphpipe":
        words[0] = program
    elif words[0] not in ("cat", "head", "grep"):
        raise SystemExit(f"golden files may not run {words[0]}")
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=100, check=False)
    text = done.stdout
    for name, folder_path in FOLDERS.items():
        text = text.replace(folder_path, name)
    for pattern, replacement in MASKS:
        text = pattern.sub(replacement, text)
    if text and not text.endswith("\n"):
        text += "\n"
    if done.returncode != 0:
        text += f"[exit {done.returncode}]\n"
    return f"$ {line}\n{text}"


def main():
    program, case = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
    expected = case.read_text()
    head = expected.split("$ ", 1)[0]  # what the case is about
    commands = re.findall(r"^\$ (.*)$", expected, re.M)
    if not commands:
        raise SystemExit(f"{case.name}: no commands")
    with tempfile.TemporaryDirectory() as folder:
        actual = head + "".join(run_command(c, program, folder) for c in commands)
    if actual == expected:
        return 0
    if os.environ.get("UPDATE_GOLDEN"):
        case.write_text(actual)
        print(f"rewrote {case.name}")
        return 0
    sys.stdout.writelines(difflib.unified_diff(
        expected.splitlines(True), actual.splitlines(True), "expected", "actual"))
    return 1


if __name__ == "__main__":
    sys.exit(main())

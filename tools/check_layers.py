#!/usr/bin/env python3
"""Holds the includes of src/ against the dependency table in src/CMakeLists.txt.

Fails on an include that is not granted, on a DEPS entry below its line, on a torch
header outside runtime/, on JSON outside *_json files and models/, and on one planner
including another.
"""
import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"
INCLUDE = re.compile(r'^#include ([<"])([^">]+)[">]', re.M)
TORCH = re.compile(r"^(torch|ATen|c10|c10d|caffe2|gloo)/")


def read_table(text):
    """The rooms in order, with the rooms that each may include."""
    text = re.sub(r"#.*", "", text)
    grants, faults = {}, []
    for call in re.finditer(r"gp_module\((\w+)([^)]*)\)", text):
        room, words = call.group(1), call.group(2).split()
        deps = []
        if "DEPS" in words:
            deps = words[words.index("DEPS") + 1 :]
            deps = deps[: deps.index("LINK")] if "LINK" in deps else deps
        for dep in deps:
            if dep not in grants:
                faults.append(f"src/CMakeLists.txt: {room} depends on {dep}, which stands below it")
        grants[room] = set(deps) | {room}
    return grants, faults


def planner_of(path):
    parts = path.parts
    return parts[1] if len(parts) > 2 and parts[0] == "planners" else None


def check_file(path, grants):
    relative = path.relative_to(SRC)
    room = relative.parts[0]
    if room not in grants:
        return [] if len(relative.parts) == 1 else [f"src/{relative}: {room} is no room of the table"]
    faults = []
    may_json = room == "models" or re.search(r"_json(_test)?\.(cc|h)$|json_reader", relative.name)
    for kind, name in INCLUDE.findall(path.read_text()):
        if TORCH.match(name) and room != "runtime":
            faults.append(f"src/{relative}: includes <{name}>; only runtime/ knows libtorch")
        if (name.startswith("nlohmann/") or name == "base/json_reader.h") and not may_json:
            faults.append(f"src/{relative}: includes {name}; only *_json files know JSON")
        if kind == "<":
            continue
        target = pathlib.PurePath(name)
        if target.parts[0] not in grants[room]:
            faults.append(f"src/{relative}: includes {name}; {room} is not granted {target.parts[0]}")
        own, other = planner_of(relative), planner_of(target)
        if own and other and own != other:
            faults.append(f"src/{relative}: includes {name}; no planner knows another")
    return faults


def main():
    grants, faults = read_table((SRC / "CMakeLists.txt").read_text())
    files = sorted(p for p in SRC.rglob("*") if p.suffix in (".h", ".cc"))
    for path in files:
        faults += check_file(path, grants)
    for fault in faults:
        print(fault)
    print(f"check_layers: {len(files)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

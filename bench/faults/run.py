#!/usr/bin/env python3
"""Training runs in which something goes wrong, at every moment, on every rank, in a chain and in a graph.

usage: run.py BUILD [--only TEXT]

Each case starts `graphpipe train` with four ranks, of which one strikes at a moment that GP_TEST_FAULT names
(src/job/test_fault.h). Then: exit code 3; one line "error: rank R on HOST (...): CAUSE", with that rank and cause; all processes gone within
10 s of the fault; no file left in the temporary folder, and no partial checkpoint. A run that died while it wrote a checkpoint is resumed
besides, and has to end well. Prints the table of README.md; exit code 1 where a case is not as it should be.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RANKS = 4
MOST_S = 10

PLACES = ["start", "connect", "warm-up", "steady", "reduction", "evaluation", "checkpoint"]
KINDS = {  # and what is said
    "kill": r"killed by signal 9",
    "stop": r"stopped by signal 19",
    "throw": r".*a fault for a test",
    "memory": r".*out of memory",
    "exit": r"exited before its work was done",
}
# Where an action is under way, it is named.
ACTION = r"(iteration|stage) .*[0-9][FB][0-9]"
AT = {"start": "start", "connect": "connect", "warm-up": ACTION, "steady": ACTION,
      "reduction": r"iteration .*reduce", "evaluation": r"iteration .*stage .*evaluating", "checkpoint": "iteration "}


def merge_last(plan):
    """The plan with its last two stages as one, the first on two devices."""
    stages = plan["stages"]
    last = stages.pop()
    for key in ("ops", "op_ids"):
        stages[-1][key] += last[key]
    plan["edges"] = [edge for edge in plan["edges"] if edge["to"] < len(stages)]
    stages[0]["devices"] = [0, 1]
    for number, stage in enumerate(stages[1:]):
        stage["devices"] = [number + 2]
    return plan


def make_plan(graphpipe, folder, kind):
    """graph: two branches that meet; chain: three stages. The first stage has two replicas."""
    path = os.path.join(folder, kind + ".plan.json")
    examples = os.path.join(ROOT, "examples")
    planner = {"graph": ["--options", "none"], "chain": ["--planner", "gpipe", "--options", "none"]}[kind]
    subprocess.run([graphpipe, "plan", os.path.join(examples, "two-tower.graph.json"), "--cluster",
                    os.path.join(examples, "small.cluster.json"), "--mini-batch", "16", "--micro-batch", "4",
                    "-o", path, *planner], check=True, stdout=subprocess.DEVNULL)
    with open(path) as file:
        plan = merge_last(json.load(file))
    with open(path, "w") as file:
        json.dump(plan, file)
    return path


def cases():
    number = 0
    for kind in ("chain", "graph"):
        for place in PLACES:
            for fault in KINDS:
                rank = number % (2 if place == "reduction" else RANKS)
                number += 1
                yield kind, place, fault, rank
        yield kind, "connect", "port", 0
        yield kind, "steady", "mute", 3


def processes_with(text):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if text.encode() in file.read():
                    found.append(pid)
        except OSError:
            continue  # it is gone
    return found


def expected(place, fault, rank):
    if fault == "port":  # whoever came to the closed port first
        return r"rank [1-3] on \S+ \(connect\): .*"
    if fault == "mute":
        return rf"rank {rank} on \S+ \({ACTION}.*\): no sign of life for 2 s .*"
    return rf"rank {rank} on \S+ \({AT[place]}.*\): {KINDS[fault]}.*"


def train(graphpipe, plan, folder, variables, *more):
    environment = {**os.environ, "TMPDIR": os.path.join(folder, "tmp"), **variables}
    os.makedirs(environment["TMPDIR"], exist_ok=True)
    command = [graphpipe, "train", plan, "--data", "synthetic", "--json", "--timeout", "5", "--eval-every", "4",
               "--checkpoint-dir", os.path.join(folder, "K"), "--checkpoint-every", "3", *more]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def judge(graphpipe, plan, folder, place, fault, rank):
    """What is wrong, and the seconds from the fault to the end of the last process."""
    log = os.path.join(folder, "fault")
    variables = {"GP_TEST_FAULT": f"{rank}:{place}:{fault}", "GP_TEST_FAULT_LOG": log}
    more = ["--heartbeat", "2"] if fault == "mute" else []
    done = train(graphpipe, plan, folder, variables, "--iterations", "1000000", *more)
    while processes_with(folder) and not os.path.exists(os.path.join(folder, "late")):
        time.sleep(0.05)
        if time.clock_gettime(time.CLOCK_MONOTONIC) - float(open(log).read()) > MOST_S:
            open(os.path.join(folder, "late"), "w").close()
    wrong = []
    if not os.path.exists(log):
        return ["the fault did not strike: " + done.stderr.strip()], 0
    with open(log) as file:
        took_s = time.clock_gettime(time.CLOCK_MONOTONIC) - float(file.read())
    limit_s = MOST_S + {"port": 5, "mute": 2}.get(fault, 0)  # from when it can be noticed
    if took_s > limit_s:
        wrong.append(f"gone after {took_s:.1f} s")
    if done.returncode != 3:
        wrong.append(f"exit code {done.returncode}")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    if len(errors) != 1 or not re.fullmatch("error: " + expected(place, fault, rank), errors[0]):
        wrong.append("said: " + " | ".join(errors))
    left = os.listdir(os.path.join(folder, "tmp"))
    saved = os.path.join(folder, "K")
    left += [name for name in (os.listdir(saved) if os.path.isdir(saved) else []) if name.startswith("partial")]
    if left or processes_with(folder):
        wrong.append("left: " + ", ".join(left + processes_with(folder)))
    if place == "checkpoint":
        flags = ["--resume"] if os.path.isdir(saved) and os.listdir(saved) else []
        again = train(graphpipe, plan, folder, {}, "--iterations", "5", *flags)
        if again.returncode != 0:
            wrong.append("afterwards: " + again.stderr.strip())
    return wrong, took_s


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--only", default="", help="cases whose name has this")
    arguments = parser.parse_args()
    graphpipe = os.path.join(arguments.build, "bin", "graphpipe")
    work = tempfile.mkdtemp(prefix="graphpipe-faults-")
    rows, failed = {}, 0
    try:
        plans = {kind: make_plan(graphpipe, work, kind) for kind in ("chain", "graph")}
        for number, (kind, place, fault, rank) in enumerate(cases()):
            name = f"{kind} {place} {fault} rank {rank}"
            if arguments.only not in name:
                continue
            folder = os.path.join(work, str(number))
            os.makedirs(folder)
            wrong, took_s = judge(graphpipe, plans[kind], folder, place, fault, rank)
            print(f"{'WRONG' if wrong else 'ok':5} {name}: {took_s:.1f} s  {'; '.join(wrong)}", file=sys.stderr, flush=True)
            failed += bool(wrong)
            rows.setdefault((place, fault), []).append((rank, took_s, not wrong))
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("| moment | fault | ranks (chain, graph) | as it should be | gone after, at most |")
    print("|---|---|---|---|---|")
    for (place, fault), found in rows.items():
        ranks = ", ".join(str(rank) for rank, _, _ in found)
        good = sum(ok for _, _, ok in found)
        print(f"| {place} | {fault} | {ranks} | {good} of {len(found)} | {max(s for _, s, _ in found):.1f} s |")
    total = sum(len(found) for found in rows.values())
    print(f"\n{total - failed} of {total} cases as they should be.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

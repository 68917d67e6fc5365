#!/usr/bin/env python3
"""How long `graphpipe plan` searches: the micro-batch sweep and the judging, on one core.

    bench/search_time/run.py [path to graphpipe]

Every command runs five times, pinned to one core. CPU time is the median and counts
everything from the start of the process to its end.
"""
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RUNS = 5
UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60}
# Model and samples a device.
PAPER = [("mmt", 16), ("dlrm", 64), ("candle-uno", 256), ("two-branch", 16)]
CASES = [
    (model, f"summit:{n}", samples * n, "dp") for model, samples in PAPER for n in (4, 8, 16, 32)
] + [
    ("mmt", "summit:32", 512, "none"),
    ("mmt:branches=2", "summit:32", 512, "dp"),
    ("mmt:branches=16", "summit:32", 512, "dp"),
    ("candle-uno:branches=16", "summit:32", 8192, "dp"),
    ("transformer:layers=32", "summit:32", 512, "dp"),
]
# A graph of 10,244 operators in 64 branches on 1,024 devices; run once.
LARGE = ("mmt:branches=64,layers=20", "summit:1024", 16384, "dp")


def find_graphpipe():
    if len(sys.argv) > 1:
        return sys.argv[1]
    for preset in ("full", "dev", "ci"):
        path = ROOT / "build" / preset / "bin" / "graphpipe"
        if path.exists():
            return str(path)
    sys.exit("graphpipe is not built: cmake --workflow --preset dev, or name its path")


def timed(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, json.loads(result.stdout)


def apart(command, runs):
    """Medians of the wall seconds that searching and judging took, as --explain says."""
    pairs = []
    for _ in range(runs):
        text = subprocess.run([*command, "--explain"], stdout=subprocess.PIPE, check=True, text=True).stdout
        found = re.search(r"Searching took ([\d.]+) (\w+), judging ([\d.]+) (\w+)", text)
        pairs.append((float(found[1]) * UNITS[found[2]], float(found[3]) * UNITS[found[4]]))
    return [statistics.median(column) for column in zip(*pairs)]


def row(graphpipe, case, runs):
    model, cluster, mini_batch, options = case
    command = [graphpipe, "plan", model, "--cluster", cluster]
    command += ["--mini-batch", str(mini_batch), "--options", options, "--json"]
    done = [timed(command) for _ in range(runs)]
    plan = done[0][1]
    if plan["status"] != "ok":
        sys.exit(f"{' '.join(command)}: {plan['status']}: {plan['reason']}")
    cpu = statistics.median(one[0] for one in done)
    searching, judging = apart([word for word in command if word != "--json"], runs)
    print(
        f"| {model} | {cluster} | {mini_batch} | {options} | {1000 * cpu:.0f} "
        f"| {1000 * searching:.0f} | {1000 * judging:.0f} "
        f"| {1000 * plan['iteration_s']:.1f} | {plan['depth']} | {plan['micro_batch']} "
        f"| {plan['gap']:.2f} |",
        flush=True,
    )


def main():
    graphpipe = find_graphpipe()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print("| model | cluster | B | options | CPU ms | search ms | judging ms | iteration ms | depth | b | gap |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for case in CASES:
        row(graphpipe, case, RUNS)
    row(graphpipe, LARGE, 1)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\nPeak memory of the last, and so of all: {peak:.0f} MiB.")


if __name__ == "__main__":
    main()

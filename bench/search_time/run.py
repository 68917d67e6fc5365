#!/usr/bin/env python3
"""How long `graphpipe plan` searches: the micro-batch sweep and the judging, on one core.

    bench/search_time/run.py [path to graphpipe]

Every command runs five times, pinned to one core. CPU time is the median and counts
everything from the start of the process to its end.
"""
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RUNS = 5
CASES = [
    ("mmt", "summit:32", 512, "dp"),
    ("mmt", "summit:32", 512, "none"),
    ("mmt:branches=2", "summit:32", 512, "dp"),
    ("mmt:branches=16", "summit:32", 512, "dp"),
    ("transformer:layers=32", "summit:32", 512, "dp"),
    ("two-branch", "summit:8", 128, "dp"),
]


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


def main():
    graphpipe = find_graphpipe()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print("| model | cluster | B | options | CPU s | iteration ms | depth | b | gap |")
    print("|---|---|---|---|---|---|---|---|---|")
    for model, cluster, mini_batch, options in CASES:
        command = [graphpipe, "plan", model, "--cluster", cluster]
        command += ["--mini-batch", str(mini_batch), "--options", options, "--json"]
        runs = [timed(command) for _ in range(RUNS)]
        plan = runs[0][1]
        if plan["status"] != "ok":
            sys.exit(f"{' '.join(command)}: {plan['status']}: {plan['reason']}")
        cpu = statistics.median(run[0] for run in runs)
        print(
            f"| {model} | {cluster} | {mini_batch} | {options} | {cpu:.2f} "
            f"| {1000 * plan['iteration_s']:.1f} | {plan['depth']} | {plan['micro_batch']} "
            f"| {plan['gap']:.2f} |"
        )


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Plans of the paper's three models on summit, run on this machine by `train --emulate`:
the graph pipeline against the best of the other planners, predicted and emulated. Prints two
Markdown tables; README.md beside this file has the recipe.

    bench/emulation/run.py [--program build/full/bin/graphpipe] [--options none,dp] [MODEL:RANKS ...]
"""
import argparse
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

sys.path.insert(0, str(ROOT / "bench"))
from programs import graphpipe
SAMPLES_PER_DEVICE = {"mmt": 16, "dlrm": 64, "candle-uno": 256}
RANKS = (8, 16, 32)
CHAINS = "gpipe,pipedream,dapple,alpa"
# Both transports run these, the second with a process a rank.
CROSS_CHECK = 8


def best_chain(program, problem):
    rows = json.loads(graphpipe(program, "compare", *problem, "--planners", CHAINS, "--json",
                                may_fail=True))["plans"]
    rows = [row for row in rows if row["status"] == "ok"]
    return min(rows, key=lambda row: row["iteration_s"])["planner"] if rows else None


def emulate(program, path, transport="auto"):
    lines = graphpipe(program, "train", path, "--emulate", "--transport", transport, "--json")
    done = json.loads(lines.splitlines()[-1])
    for stage in done["stages"]:
        if stage["measured_peak_bytes"] != stage["predicted_peak_bytes"]:
            raise SystemExit(f"{path}: stage {stage['stage']} held {stage['measured_peak_bytes']} "
                             f"bytes, verified for {stage['predicted_peak_bytes']}")
    return done


def row(model, ranks, widths, planner, done):
    predicted, measured = done["predicted_iteration_s"], done["measured_iteration_s"]
    emulation = done["emulation"]
    print(f"| {model} | {ranks} | {widths} | {planner} | {1e3 * predicted:.1f} ms | {1e3 * measured:.1f} ms "
          f"| {100 * (measured / predicted - 1):+.2f} % "
          f"| {100 * emulation['predicted_bubble_fraction']:.1f}, {100 * emulation['bubble_fraction']:.1f} % "
          f"| {emulation['stretch']:.3g} | {emulation['wall_s']:.1f} s "
          f"| {1e3 * emulation['most_late_s']:.1f}, {1e3 * emulation['late_s']:.1f} ms "
          f"| {1e6 * done['action_s']:.0f} us |", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--program", default=str(ROOT / "build/full/bin/graphpipe"))
    arguments.add_argument("--options", default="none,dp",
                           help="of the planners: one device a stage, several, or both in turn")
    arguments.add_argument("cases", nargs="*", help="mmt:8 ...; all of them by default")
    options = arguments.parse_args()
    cases = [case.split(":") for case in options.cases] or \
        [(model, ranks) for model in SAMPLES_PER_DEVICE for ranks in RANKS]
    advantages = []
    print("| model | ranks | options | planner | predicted | emulated | departs | bubble: predicted, emulated "
          "| stretched | on the clock | behind: at most, at the end | CPU time an action |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for widths, model, ranks in [(w, *case) for w in options.options.split(",") for case in cases]:
            ranks = int(ranks)
            problem = [model, "--cluster", f"summit:{ranks}", "--options", widths,
                       "--mini-batch", SAMPLES_PER_DEVICE[model] * ranks]
            results = {}
            chain = best_chain(options.program, problem)
            for planner in filter(None, ("graphpipe", chain)):
                path = f"{folder}/{model}-{ranks}-{planner}.plan.json"
                graphpipe(options.program, "plan", *problem, "--planner", planner, "-o", path)
                results[planner] = emulate(options.program, path)
                row(model, ranks, widths, planner, results[planner])
                if ranks == CROSS_CHECK:
                    row(model, ranks, widths, f"{planner}, processes",
                        emulate(options.program, path, "gloo"))
            if chain:
                advantages.append((model, ranks, widths, chain, *(
                    results[chain][field] / results["graphpipe"][field]
                    for field in ("predicted_iteration_s", "measured_iteration_s"))))
    print("\n| model | ranks | options | best of the others | gain predicted | gain emulated | departs |")
    print("|---|---|---|---|---|---|---|")
    for model, ranks, widths, chain, predicted, emulated in advantages:
        print(f"| {model} | {ranks} | {widths} | {chain} | {predicted:.3f}x | {emulated:.3f}x "
              f"| {100 * (emulated / predicted - 1):+.2f} % |")


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Steady-state throughput of asynchronous plans, predicted and measured: emulated on the clusters
that they are for, and trained on this machine. Prints a Markdown table of plans and one of what
the ratios between plans depart by; README.md beside this file has the recipe.

    bench/streams/run.py [--program build/full/bin/graphpipe] [--way emulated|real|both]
"""
import argparse
import itertools
import json
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

sys.path.insert(0, str(ROOT / "bench"))
from programs import graphpipe

# (model, cluster, mini-batch, micro-batch of 2BW)
EMULATED = (
    ("mmt:layers=2", "summit:4", 16, 4),
    ("candle-uno:branches=3,layers=2,top_layers=2", "summit:4", 256, 64),
)
EMULATED_WAYS = (
    ("graphpipe", "stash", "none"),
    ("pipedream", "stash", "none"),
    ("pipedream", "vertical-sync", "dp"),
    ("data-parallel", "stash", "dp"),
    ("graphpipe", "2bw", "none"),
)
# On two cores no more ranks than these compute at a time.
REAL = (("candle-uno:branches=2,layers=3,hidden=768,features=768,top_layers=2", "local:2", 64),)
REAL_WAYS = (
    ("graphpipe", "stash", "none"),
    ("gpipe", "naive", "none"),
    ("data-parallel", "stash", "dp"),
)
REAL_MINI_BATCHES = 400


def shape(plan):
    """"2-1-1 (split)": devices by stage."""
    return "-".join(str(len(stage["devices"])) for stage in plan["stages"])


def steps_late(simulated):
    return " ".join(str(stage["steps_late"]) for stage in simulated["stages"])


def make_plan(program, path, model, cluster, mini_batch, way, more):
    planner, policy, options = way
    graphpipe(program, "plan", model, "--cluster", cluster, "--mini-batch", mini_batch, "--async",
              "--policy", policy, "--planner", planner, "--options", options, "-o", path, *more)
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    return plan, json.loads(graphpipe(program, "simulate", path, "--json"))


def last_line(text):
    return json.loads(text.splitlines()[-1])


def emulate(program, path):
    done = last_line(graphpipe(program, "train", path, "--emulate", "--json"))
    for stage in done["stages"]:
        if stage["measured_peak_bytes"] != stage["predicted_peak_bytes"]:
            raise SystemExit(f"{path}: stage {stage['stage']} held {stage['measured_peak_bytes']} "
                             f"bytes, verified for {stage['predicted_peak_bytes']}")
    return done["measured_iteration_s"]


def train(program, path, mini_batch):
    """Seconds of a mini-batch, over the last of the streams, and their length: the first fills
    caches."""
    text = graphpipe(program, "train", path, "--data", "synthetic", "--iterations", REAL_MINI_BATCHES,
                     "--eval-every", REAL_MINI_BATCHES // 2, "--log-every", 1, "--json", "--seed", 1)
    lines = [line for line in map(json.loads, text.splitlines()) if "samples_per_s" in line]
    rates = [line["samples_per_s"] for line in lines]
    return mini_batch / rates[-1], rates.count(rates[-1])


def predicted_stream_s(simulated, mini_batches):
    """Filling and draining included, a mini-batch's share."""
    period = simulated["iteration_s"]
    whole = simulated["stream_s"] + (mini_batches - simulated["stream_mini_batches"]) * period
    return whole / mini_batches


def row(model, way, plan, simulated, predicted_s, measured_s):
    planner, policy, _ = way
    print(f"| {model} | {planner} | {policy} | {shape(plan)} | {steps_late(simulated)} "
          f"| {1e3 * predicted_s:.2f} ms | {1e3 * measured_s:.2f} ms "
          f"| {100 * (measured_s / predicted_s - 1):+.2f} % |", flush=True)


def heading(title, what):
    print(f"\n{title}\n")
    print(f"| model | planner | policy | devices by stage | steps late | predicted | {what} | departs |")
    print("|---|---|---|---|---|---|---|---|")


def print_ratios(results):
    """results: {model: {way: (predicted, measured)}}; of every two plans of a model."""
    worst = 0
    for ways in results.values():
        for (_, a), (_, b) in itertools.combinations(ways.items(), 2):
            worst = max(worst, abs((a[1] / b[1]) / (a[0] / b[0]) - 1))
    print(f"\nRatios between plans of a model depart by at most {100 * worst:.2f} %.")
    return worst


def run_emulated(program, folder):
    heading("Emulated, a mini-batch in the steady state.", "emulated")
    results = {}
    for model, cluster, mini_batch, micro_batch in EMULATED:
        for i, way in enumerate(EMULATED_WAYS):
            more = ("--micro-batch", micro_batch) if way[1] == "2bw" else ()
            path = f"{folder}/emulated{i}.plan.json"
            plan, simulated = make_plan(program, path, model, cluster, mini_batch, way, more)
            measured_s = emulate(program, path)
            row(model, way, plan, simulated, simulated["iteration_s"], measured_s)
            results.setdefault(model, {})[way] = (simulated["iteration_s"], measured_s)
    return print_ratios(results)


def run_real(program, folder):
    heading("Trained here, a mini-batch of a stream, filling and draining included; "
            f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.", "measured")
    results = {}
    for model, cluster, mini_batch in REAL:
        profile = f"{folder}/profile.json"
        graphpipe(program, "profile", model, "--micro-batch", mini_batch, "--ranks", 2, "-o", profile)
        for i, way in enumerate(REAL_WAYS):
            path = f"{folder}/real{i}.plan.json"
            plan, simulated = make_plan(program, path, model, cluster, mini_batch, way,
                                        ("--profile", profile))
            measured_s, mini_batches = train(program, path, mini_batch)
            predicted_s = predicted_stream_s(simulated, mini_batches)
            row(model, way, plan, simulated, predicted_s, measured_s)
            results.setdefault(model, {})[way] = (predicted_s, measured_s)
    print(f"\nLoad of the machine after: {os.getloadavg()[0]:.1f}.")
    return print_ratios(results)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--program", default=str(ROOT / "build/full/bin/graphpipe"))
    arguments.add_argument("--way", choices=("emulated", "real", "both"), default="both")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.way != "real":
            run_emulated(options.program, folder)
        if options.way != "emulated":
            run_real(options.program, folder)


if __name__ == "__main__":
    sys.exit(main())

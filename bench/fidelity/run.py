#!/usr/bin/env python3
"""How well profiles predict runs on this machine: ten plans over five models, each round profiled
and run in turn, so that what the machine does meanwhile meets both. Prints Markdown tables;
README.md beside this file has the recipe.

    bench/fidelity/run.py [--rounds 3] [--iterations 12] [build/full/bin/graphpipe]

A plan's prediction is the median over the rounds of the simulator's iteration with that round's
profile, its measurement the median of the rounds' runs. Ratios are those between every two
plans.
"""
import argparse
import itertools
import json
import os
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

sys.path.insert(0, str(ROOT / "bench"))
import programs

RANKS = 2

# Model, mini-batch, and two plans: planner and micro-batch.
CASES = [
    ("movielens", 1024, (("graphpipe", 128), ("gpipe", 256))),
    ("two-branch:blocks=2,sequence=32,hidden=128,heads=4,ffn=512", 64,
     (("graphpipe", 8), ("gpipe", 16))),
    ("transformer:layers=4,sequence=64,hidden=128,heads=4,ffn=512", 32,
     (("graphpipe", 4), ("gpipe", 8))),
    ("candle-uno:branches=4,layers=2,hidden=256,features=256,top_layers=2", 512,
     (("graphpipe", 64), ("gpipe", 128))),
    ("vgg16:image=32,width=16,hidden=256,classes=10", 32, (("graphpipe", 4), ("gpipe", 8))),
]


def graphpipe(*words):
    return programs.graphpipe(PROGRAM, *words)


def profile(folder, model, micro_batches):
    path = f"{folder}/profile.json"
    graphpipe("profile", model, "--micro-batch", ",".join(map(str, sorted(micro_batches))),
              "--ranks", RANKS, "--fresh", "-o", path)
    return path


def make_plan(folder, model, mini_batch, planner, micro_batch, costs):
    path = f"{folder}/{planner}-{micro_batch}.plan.json"
    graphpipe("plan", model, "--cluster", f"local:{RANKS}", "--mini-batch", mini_batch,
              "--micro-batch", micro_batch, "--options", "none", "--all-devices", "--planner",
              planner, "--profile", costs, "-o", path)
    return path


def run(path, costs, iterations):
    """The last line of a run."""
    lines = graphpipe("train", path, "--data", "synthetic", "--iterations", iterations, "--lr",
                      "0.0001", "--profile", costs, "--json").splitlines()
    return json.loads(lines[-1])


class Outcome:
    def __init__(self, name):
        self.name = name
        self.predicted, self.measured, self.compute, self.memory = [], [], [], []

    def add(self, predicted_s, done):
        self.predicted.append(predicted_s)
        self.measured.append(done["measured_iteration_s"])
        for stage in done["stages"]:
            self.compute.append(stage["measured_s"] / stage["predicted_s"] - 1)
            self.memory.append(stage["predicted_peak_bytes"] / stage["measured_peak_bytes"] - 1)

    @property
    def predicted_s(self):
        return statistics.median(self.predicted)

    @property
    def measured_s(self):
        return statistics.median(self.measured)


def ranks_of(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    return [order.index(i) for i in range(len(values))]


def rank_correlation(a, b):
    """Spearman's, without ties."""
    n = len(a)
    squares = sum((x - y) ** 2 for x, y in zip(ranks_of(a), ranks_of(b)))
    return 1 - 6 * squares / (n * (n * n - 1))


def ratio_errors(pairs):
    return [abs((p.predicted_s / q.predicted_s) / (p.measured_s / q.measured_s) - 1)
            for p, q in pairs]


def percent(value):
    return f"{100 * value:+.1f} %"


def main():
    global PROGRAM
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?", default=str(ROOT / "build/full/bin/graphpipe"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=12)
    arguments = parser.parse_args()
    PROGRAM = arguments.program
    outcomes, loads = {}, []
    with tempfile.TemporaryDirectory() as folder:
        plans = {}
        for turn in range(arguments.rounds):
            for model, mini_batch, settings in CASES:
                costs = profile(folder, model, {b for _, b in settings})
                for planner, micro_batch in settings:
                    name = (model, planner, micro_batch)
                    if name not in plans:
                        home = f"{folder}/{len(plans)}"
                        os.mkdir(home)
                        plans[name] = make_plan(home, model, mini_batch, planner, micro_batch, costs)
                        outcomes[name] = Outcome(name)
                    simulated = json.loads(graphpipe("simulate", plans[name], "--profile", costs,
                                                     "--json"))
                    done = run(plans[name], costs, arguments.iterations)
                    outcomes[name].add(simulated["iteration_s"], done)
                    loads.append(os.getloadavg()[0])
    report(list(outcomes.values()), loads)


def report(outcomes, loads):
    print(f"{os.cpu_count()} cores, {RANKS} ranks; load average {min(loads):.1f} to "
          f"{max(loads):.1f} meanwhile, the runs themselves included\n")
    print("| model | planner, micro-batch | predicted | measured | departs | stages' computing: "
          "measured over predicted | peak memory: predicted over measured |")
    print("|---|---|---|---|---|---|---|")
    for o in outcomes:
        model, planner, micro_batch = o.name
        print(f"| {model.split(':')[0]} | {planner}, {micro_batch} | {1000 * o.predicted_s:.1f} ms "
              f"| {1000 * o.measured_s:.1f} ms | {percent(o.predicted_s / o.measured_s - 1)} "
              f"| {percent(min(o.compute))} to {percent(max(o.compute))} "
              f"| {percent(min(o.memory))} to {percent(max(o.memory))} |")
    every = ratio_errors(itertools.combinations(outcomes, 2))
    within = ratio_errors((p, q) for p, q in itertools.combinations(outcomes, 2)
                          if p.name[0] == q.name[0])
    memory = [m for o in outcomes for m in o.memory]
    print("\n| figure | found | wanted |")
    print("|---|---|---|")
    print(f"| error of the ratio of two plans' iterations, median of {len(every)} pairs "
          f"| {100 * statistics.median(every):.1f} % | at most 5 % |")
    print(f"| ... of two plans of one model, median of {len(within)} "
          f"| {100 * statistics.median(within):.1f} % | |")
    print(f"| rank correlation of the ten (Spearman) | "
          f"{rank_correlation([o.predicted_s for o in outcomes], [o.measured_s for o in outcomes]):.3f} "
          f"| at least 0.9 |")
    print(f"| predicted peak memory over measured, of all ranks | {percent(min(memory))} to "
          f"{percent(max(memory))} | within 10 % |")


if __name__ == "__main__":
    main()

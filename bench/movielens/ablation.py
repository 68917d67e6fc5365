#!/usr/bin/env python3
"""Trains movielens with each branch off in turn, a run for each seed (which also makes
the split), and prints a table of test errors.

    bench/movielens/ablation.py [--ranks 1] [--seeds 1,2,3] [--program build/full/bin/graphpipe]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

sys.path.insert(0, str(ROOT / "bench"))
from programs import graphpipe
RECIPE = ["--optimizer", "adam", "--lr", "0.003", "--log-every", "1000", "--json"]
PLAN = ["--mini-batch", "1024", "--micro-batch", "256", "--options", "none", "--optimizer", "adam"]
MODELS = [
    ("all four branches", "movielens"),
    ("without user", "movielens:use_user=0"),
    ("without film", "movielens:use_film=0"),
    ("without title", "movielens:use_title=0"),
    ("without genres, year and time", "movielens:use_genre=0"),
]


def train(program, model, ranks, seed):
    """The last line of the run: metrics and baseline."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/plan.json"
        graphpipe(program, "plan", model, "--cluster", f"local:{ranks}", *PLAN, "-o", path)
        out = graphpipe(program, "train", path, "--data", "movielens", "--seed", seed, *RECIPE)
    done = json.loads(out.splitlines()[-1])
    print(f"{model} seed {seed}: validation {done['validation']['rmse']:.4f}, test "
          f"{done['metrics']['rmse']:.4f}, baseline {done['baseline_rmse']:.4f}, "
          f"{done['epochs']:.0f} epochs in {done['elapsed_s']:.0f} s", file=sys.stderr)
    return done


def row(label, values):
    cells = [f"{value:.4f}" for value in [*values, sum(values) / len(values)]]
    print(f"| {label} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--program", default=str(ROOT / "build/full/bin/graphpipe"))
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    fetch = subprocess.run([ROOT / "tools/fetch_data.sh", "movielens"], check=False,
                           env={**os.environ, "GRAPHPIPE": arguments.program})
    if fetch.returncode != 0:
        raise SystemExit(fetch.returncode)

    print(f"| test RMSE | {' | '.join(f'seed {seed}' for seed in seeds)} | mean |")
    print("|---" * (len(seeds) + 2) + "|")
    baselines = []
    for label, model in MODELS:
        runs = [train(arguments.program, model, arguments.ranks, seed) for seed in seeds]
        baselines = [run["baseline_rmse"] for run in runs]
        row(label, [run["metrics"]["rmse"] for run in runs])
    row("user and film offsets only", baselines)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Trains one net in every way and prints when each reaches a validation accuracy that is fixed
beforehand: a table, and with --plot accuracy by epoch and by time as SVG.

    bench/time_to_accuracy/run.py [--net vgg] [--epochs 40] [--ranks 2] [--target T] [--plot FILE]
                                  [--link 100mbit]

The data are made by emoji.py beside this file. Every way sees the same mini-batches in the same
order at the same learning rate, from the same weights. With --link every rank is on a host of its
own: network namespaces whose links are limited to that rate each way.
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "tests/hosts"))
import namespaces
from programs import graphpipe

# model, mini-batch, flags of train, the field that is watched, its target, whether more is better
NETS = {
    "vgg": ("vgg16:image=32,width=8,hidden=64,classes=9,batch_norm=1,dropout=0", 32,
            ("--optimizer", "sgd", "--lr", "0.02", "--momentum", "0.9"), "accuracy", 0.55, True),
    "alexnet": ("alexnet:image=64,width=8,hidden=256,classes=9,dropout=0", 32,
                ("--optimizer", "sgd", "--lr", "0.02", "--momentum", "0.9"), "accuracy", 0.50, True),
    "movielens": ("movielens:hidden=64,width=32", 256,
                  ("--optimizer", "adam", "--lr", "0.003"), "rmse", 0.90, False),
}


def ways(ranks, mini_batch):
    """name: flags of plan."""
    small = ("--micro-batch", mini_batch // 4)
    straight = ("--options", "none")
    many = ("--cluster", f"local:{ranks}")
    return {
        "one device": ("--cluster", "local:1"),
        "data parallel": (*many, "--planner", "data-parallel", "--micro-batch", mini_batch),
        "model parallel, no pipeline": (*many, *straight, "--planner", "gpipe", "--all-devices",
                                        "--micro-batch", mini_batch),
        "synchronous pipeline": (*many, *straight, *small),
        "stash": (*many, *straight, "--async"),
        "vertical sync": (*many, *straight, "--async", "--policy", "vertical-sync"),
        "2bw": (*many, *straight, *small, "--async", "--policy", "2bw"),
        "naive": (*many, *straight, "--async", "--policy", "naive"),
        "stash, any widths": (*many, "--async"),
    }


EMOJI_PIXELS = {"vgg": 32, "alexnet": 64}


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def train(arguments, net, data, flags):
    model, mini_batch, recipe, metric, _, _ = net
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/plan.json"
        graphpipe(arguments.program, "plan", model, "--mini-batch", mini_batch, *flags, "-o", path)
        widths = [len(stage["devices"])
                  for stage in json.loads(pathlib.Path(path).read_text())["stages"]]
        if arguments.link:
            recipe = (*recipe, "--transport", "gloo",
                      *namespaces.write_hostfile(folder, sum(widths)))
        before_s = children_cpu_s()
        text = graphpipe(arguments.program, "train", path, "--data", data, "--epochs",
                         arguments.epochs, "--patience", 0, "--seed", arguments.seed, "--log-every",
                         1000000, *recipe, "--json")
        cpu_s = children_cpu_s() - before_s
    lines = [json.loads(line) for line in text.splitlines()]
    curve = [(line["epoch"], line["elapsed_s"], line["validation"][metric])
             for line in lines if "evaluation" in line]
    done = lines[-1]
    sent = max(stage["bytes_sent"] / width for stage, width in zip(done["stages"], widths))
    return {"curve": curve, "cpu_s": cpu_s, "elapsed_s": done["elapsed_s"], "sent_bytes": sent,
            "test": done["metrics"][metric]}


def reached(result, target, more_is_better):
    """(epoch, seconds, CPU seconds) of the first evaluation at the target; None."""
    for epoch, elapsed_s, value in result["curve"]:
        if (value >= target) if more_is_better else (value <= target):
            share = elapsed_s / result["elapsed_s"]
            return epoch, elapsed_s, share * result["cpu_s"]
    return None


def print_table(net, results):
    _, _, _, metric, target, more_is_better = net
    print(f"| way | best {metric} | on the test | epochs to {target} | seconds | CPU seconds "
          "| kB sent a mini-batch, by the rank that sends most |")
    print("|---|---|---|---|---|---|---|")
    for name, result in results.items():
        values = [value for _, _, value in result["curve"]]
        best = max(values) if more_is_better else min(values)
        at = reached(result, target, more_is_better)
        cells = [f"{at[0]:.0f}", f"{at[1]:.1f}", f"{at[2]:.1f}"] if at else ["-", "-", "-"]
        print(f"| {name} | {best:.3f} | {result['test']:.3f} | {' | '.join(cells)} "
              f"| {result['sent_bytes'] / 1000:.0f} |")


WIDTH, HEIGHT, MARGIN = 480, 360, 40  # of a panel
COLOURS = ("#1b6ca8", "#d1495b", "#66a182", "#edae49", "#7b4b94", "#00798c", "#8d6346", "#444444",
           "#e07be0")


def panel(results, net, left, column, unit):
    """Curves by column 0 (epochs) or 1 (seconds), with the target across."""
    _, _, _, metric, target, _ = net
    values = [target, *(value for result in results.values() for _, _, value in result["curve"])]
    last = max(result["curve"][-1][column] for result in results.values())
    low, high = min(values), max(values)

    def point(at, value):
        x = left + MARGIN + (WIDTH - 1.5 * MARGIN) * at / last
        y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (value - low) / (high - low or 1)
        return f"{x:.1f},{y:.1f}"

    yield (f'<text x="{left + MARGIN}" y="20">validation {metric}, {low:.3f} to {high:.3f}, '
           f'over {last:.0f} {unit}; dashed: the target</text>')
    yield (f'<polyline fill="none" stroke="#999999" stroke-dasharray="4" '
           f'points="{point(0, target)} {point(last, target)}"/>')
    for colour, result in zip(COLOURS, results.values()):
        points = " ".join(point(row[column], row[2]) for row in result["curve"])
        yield f'<polyline fill="none" stroke="{colour}" points="{points}"/>'


def svg(results, net):
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH + 4 * MARGIN}" '
             f'height="{HEIGHT}" font-family="sans-serif" font-size="11">',
             *panel(results, net, 0, 0, "epochs"), *panel(results, net, WIDTH, 1, "seconds")]
    for i, (colour, name) in enumerate(zip(COLOURS, results)):
        parts.append(f'<text x="{2 * WIDTH}" y="{MARGIN + 14 * i}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def data_set(arguments):
    if arguments.net == "movielens":
        fetch = subprocess.run([ROOT / "tools/fetch_data.sh", "movielens"], check=False)
        if fetch.returncode != 0:
            raise SystemExit("time_to_accuracy: no data")
        return "movielens"
    pixels = EMOJI_PIXELS[arguments.net]
    folder = os.path.expanduser(arguments.data or f"~/.cache/graphpipe/data/emoji{pixels}")
    made = subprocess.run([sys.executable, HERE / "emoji.py", folder, "--size", str(pixels)],
                          check=False)
    if made.returncode != 0:
        raise SystemExit("time_to_accuracy: no data")
    return folder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=str(ROOT / "build/full/bin/graphpipe"))
    parser.add_argument("--net", choices=NETS, default="vgg")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", type=float)
    parser.add_argument("--ways", help="some of them, by name, between semicolons")
    parser.add_argument("--data", help="where emoji.py puts its data")
    parser.add_argument("--link", help="a host for every rank, with links of so much: 100mbit, 1gbit")
    parser.add_argument("--plot", type=pathlib.Path)
    arguments = parser.parse_args()
    net = NETS[arguments.net]
    if arguments.target is not None:
        net = (*net[:4], arguments.target, net[5])
    chosen = ways(arguments.ranks, net[1])
    if arguments.ways:
        chosen = {name: chosen[name] for name in arguments.ways.split(";")}
    data = data_set(arguments)
    links = "no network"
    if arguments.link:
        namespaces.enter()  # where this program starts again
        links = namespaces.set_up(arguments.ranks, arguments.link)
    results = {}
    start_s = time.monotonic()
    for name, flags in chosen.items():
        results[name] = train(arguments, net, data, flags)
        print(f"{name}: {results[name]['elapsed_s']:.0f} s", file=sys.stderr)
    print(f"{arguments.net}, {arguments.epochs} epochs, {arguments.ranks} ranks on {os.cpu_count()} cores, "
          f"{links}, load {os.getloadavg()[0]:.1f}, {time.monotonic() - start_s:.0f} s in all\n")
    print_table(net, results)
    if arguments.plot:
        arguments.plot.write_text(svg(results, net), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

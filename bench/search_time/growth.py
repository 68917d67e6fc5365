#!/usr/bin/env python3
"""How search time grows with devices, operators and branches: one SVG each beside this file.

    bench/search_time/growth.py [path to graphpipe]

Each point is CPU seconds of one `graphpipe plan` (the least of three), pinned to one core, judging
and start-up included. Equal branches share their tables in the search; in the second line of
each plot every branch has a width of its own, so that none is equal to another.
"""
import json
import os
import pathlib
import tempfile

import plots
import run

HERE = pathlib.Path(__file__).resolve().parent
REPEATS = 3


def unequal(branches, layers, path):
    """Branches of linear layers, each branch of another width, joined by a concat."""
    graph = {"format": "graphpipe-graph", "version": 1, "name": "unequal", "tensors": [],
             "params": [], "ops": [], "inputs": []}

    def tensor(name, width, shape=None):
        graph["tensors"].append({"name": name, "dtype": "float32", "shape": [width] if shape is None else shape})

    def linear(name, source, width_in, width_out):
        graph["params"].append({"name": name + ".weight", "dtype": "float32", "shape": [width_out, width_in],
                                "init": {"kind": "uniform", "scale": 0.01}})
        graph["ops"].append({"name": name, "kind": "linear", "inputs": [source],
                             "params": [name + ".weight"], "outputs": [name]})
        tensor(name, width_out)

    ends, total = [], 0
    for branch in range(branches):
        width = 1024 + 16 * branch
        source = f"x{branch}"
        graph["inputs"].append(source)
        tensor(source, width)
        for layer in range(layers):
            linear(f"branch{branch}.fc{layer}", source, width, width)
            source = f"branch{branch}.fc{layer}"
        ends.append(source)
        total += width
    if branches > 1:
        graph["ops"].append({"name": "concat", "kind": "concat", "attributes": {"axis": -1},
                             "inputs": ends, "outputs": ["concat"]})
        tensor("concat", total)
    linear("head", "concat" if branches > 1 else ends[0], total, 16)
    graph["inputs"].append("y")
    tensor("y", 16)
    graph["ops"].append({"name": "loss", "kind": "mse_loss", "inputs": ["head", "y"], "outputs": ["loss"]})
    tensor("loss", 1, [])
    graph["losses"] = [{"tensor": "loss", "weight": 1, "normaliser": "mean_over_samples"}]
    path.write_text(json.dumps(graph))
    return str(path)


def seconds(graphpipe, model, devices, mini_batch):
    command = [graphpipe, "plan", model, "--cluster", f"h100:{devices}", "--mini-batch", str(mini_batch), "--json"]
    return min(run.timed(command)[0] for _ in range(REPEATS))


def main():
    graphpipe = run.find_graphpipe()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "unequal.graph.json"

        def model(equal, branches, layers):
            if equal:
                return f"candle-uno:branches={branches},layers={layers},hidden=1024"
            return unequal(branches, layers, file)

        axes = {
            "devices": ((4, 16, 64, 256), lambda n: (8, 8, n, 16 * n)),
            "operators": ((64, 256, 1024, 4096), lambda n: (8, n // 8, 16, 256)),
            "branches": ((2, 4, 8, 16, 32), lambda n: (n, 8, 32, 512)),
        }
        for axis, (sizes, at) in axes.items():
            series = {}
            for equal in (True, False):
                name = "equal branches" if equal else "unequal"
                series[name] = []
                for n in sizes:
                    branches, layers, devices, mini_batch = at(n)
                    spent = seconds(graphpipe, model(equal, branches, layers), devices, mini_batch)
                    series[name].append((n, spent))
                    print(f"{axis} {n} {name}: {spent:.3f} s", flush=True)
                print(f"{axis}, {name}: exponent {plots.fit(series[name]):.2f}", flush=True)
            (HERE / f"{axis}.svg").write_text(plots.svg(f"search time over {axis}", axis, series))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The figures of GraphPipe's evaluation on our costs: prints a Markdown table a figure, and writes
an SVG of each beside this file. README.md has what the paper says and why we differ.

    bench/paper/run.py [--program build/full/bin/graphpipe] [--emulate] [--time-limit S]
                       [--options none,dp] [FIGURE ...]
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import bars

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES_PER_DEVICE = {"mmt": 16, "dlrm": 64, "candle-uno": 256}
DEVICES = (4, 8, 16, 32)
PLANNERS = ("pipedream", "piper", "dapple", "alpa", "graphpipe")
OTHERS = PLANNERS[:-1]


class Study:
    def __init__(self, options, folder):
        self.program, self.emulated, self.folder = options.program, options.emulate, folder
        self.time_limit_s = options.time_limit
        self.options = options.options.split(",")

    def run(self, *words):
        done = subprocess.run([self.program, *map(str, words)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode > 1:
            raise SystemExit(f"graphpipe {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def compare(self, model, devices, mini_batch, *more, planners=PLANNERS):
        """Planner to its row; infeasible and given up ones too."""
        out = self.run("compare", model, "--cluster", f"summit:{devices}", "--mini-batch", mini_batch,
                       "--planners", ",".join(planners), "--time-limit", self.time_limit_s, "--json", *more)
        return {row["planner"]: row for row in json.loads(out)["plans"]}

    def plan(self, model, devices, mini_batch, planner, *more):
        """The plan's path and what it prints; the path is None where there is no plan."""
        path = f"{self.folder}/{planner}.plan.json"
        row = json.loads(self.run("plan", model, "--cluster", f"summit:{devices}", "--mini-batch", mini_batch,
                                  "--planner", planner, "--time-limit", self.time_limit_s, "--json", "-o", path, *more))
        return (path if row["status"] == "ok" else None), row

    def emulate(self, path):
        lines = self.run("train", path, "--emulate", "--json").splitlines()
        return json.loads(lines[-1])["measured_iteration_s"]


def mini_batch_of(model, devices):
    return SAMPLES_PER_DEVICE[model.split(":")[0]] * devices


def throughput(row):
    return row["throughput_samples_per_s"] if row and row["status"] == "ok" else None


def cell(value, form="{:.0f}"):
    return "-" if value is None else form.format(value)


def best_of_others(rows):
    done = [row for name, row in rows.items() if name != "graphpipe" and row["status"] == "ok"]
    return min(done, key=lambda row: row["iteration_s"]) if done else None


def gain(rows):
    other = best_of_others(rows)
    return other and other["iteration_s"] / rows["graphpipe"]["iteration_s"]


def shape(row):
    if row["status"] != "ok":
        return row["status"].replace("_", " ")
    return f"{len(row['stages'])} stages, depth {row['depth']}, b {row['micro_batch']}"


def header(title, *columns):
    print(f"\n### {title}\n\n| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")


def line(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def save(name, title, y_label, groups):
    (HERE / f"{name}.svg").write_text(bars.svg(title, y_label, groups))


def figure_6(study):
    """Throughput of the three models on 4 to 32 devices, and the time to find the plans."""
    searches = []
    header("Figure 6: samples/s", "model", "options", "devices", *PLANNERS, "over the best other", "graph plan",
           "best other", *(["emulated"] if study.emulated else []))
    for model, widths in [(m, w) for m in SAMPLES_PER_DEVICE for w in study.options]:
        groups = {}
        for devices in DEVICES:
            rows = study.compare(model, devices, mini_batch_of(model, devices), "--options", widths)
            searches.append((model, widths, devices, rows))
            groups[str(devices)] = {name: throughput(rows[name]) for name in PLANNERS}
            other = best_of_others(rows)
            cells = [model, widths, devices, *(cell(throughput(rows[name])) for name in PLANNERS),
                     cell(gain(rows), "{:.2f}x"), shape(rows["graphpipe"]),
                     f"{other['planner']}: {shape(other)}" if other else "-"]
            if study.emulated and other:
                times = [study.emulate(study.plan(model, devices, mini_batch_of(model, devices), name,
                                                  "--options", widths)[0])
                         for name in ("graphpipe", other["planner"])]
                cells.append(f"{times[1] / times[0]:.2f}x")
            line(*cells)
        save(f"figure_6_{model}_{widths}", f"{model}, options {widths}: samples/s on summit (simulated)",
             "samples/s", groups)
    header("Table 1: seconds to find the plan", "model", "options", "devices", *PLANNERS)
    for model, widths, devices, rows in searches:
        line(model, widths, devices, *(f"{rows[name]['search_s']:.2f}" + ("" if rows[name]["status"] == "ok"
             else f" ({rows[name]['status'].replace('_', ' ')})") for name in PLANNERS))


def figure_7(study):
    """The gain by the number of branches, at 32 devices."""
    header("Figure 7: branches of CANDLE-Uno, 32 devices", "branches", "options", "mini-batch", *PLANNERS,
           "over the best other", "graph plan")
    groups = {}
    for branches, widths in [(n, w) for n in (2, 4, 8, 16) for w in study.options]:
        for mini_batch in (2048, 8192):
            rows = study.compare(f"candle-uno:branches={branches}", 32, mini_batch, "--options", widths)
            if widths == study.options[0]:
                groups[f"{branches}, B={mini_batch}"] = {name: throughput(rows[name]) for name in PLANNERS}
            line(branches, widths, mini_batch, *(cell(throughput(rows[name])) for name in PLANNERS),
                 cell(gain(rows), "{:.2f}x"), shape(rows["graphpipe"]))
    save("figure_7", f"candle-uno by branches, 32 devices, options {study.options[0]} (simulated)", "samples/s",
         groups)
    header("Figure 7, fixed micro-batches: gain over the best other", "branches",
           *(f"b = {b}" for b in (64, 128, 256, 512)))
    for branches in (2, 4, 8, 16):
        line(branches, *(cell(gain(study.compare(f"candle-uno:branches={branches}", 32, 2048,
                                                 "--micro-batch", b, "--options", study.options[0])),
                              "{:.2f}x") for b in (64, 128, 256, 512)))


def case_study(study):
    """Two branches on 8 devices, one device a stage; what the micro-batch adds."""
    header("Case study: two-branch, 8 devices, B = 128, one device a stage", "plan", "b", "depth", "iteration",
           "bubble", "fullest device")
    for planner in ("gpipe", "pipedream", "graphpipe"):
        for micro_batch in (1, 2, 4, 8, None):
            more = ["--options", "none"] + (["--micro-batch", micro_batch] if micro_batch else [])
            _, row = study.plan("two-branch", 8, 128, planner, *more)
            if row["status"] != "ok":
                line(planner, micro_batch or "any", "-", row["status"], "-", "-")
                continue
            memory = max(stage["memory_bytes"] for stage in row["stages"])
            line(planner, row["micro_batch"] if micro_batch else f"best: {row['micro_batch']}", row["depth"],
                 f"{1e3 * row['iteration_s']:.1f} ms", f"{100 * row['bubble_fraction']:.1f} %",
                 f"{memory / 2**30:.2f} GiB")


def without_order_edges(study, path):
    """The same partition with the dependencies of its tensors only."""
    plan = json.loads(pathlib.Path(path).read_text())
    plan["edges"] = [edge for edge in plan["edges"] if edge["kind"] == "data"]
    free = f"{study.folder}/free.plan.json"
    pathlib.Path(free).write_text(json.dumps(plan))
    return json.loads(study.run("simulate", free, "--json"))["iteration_s"]


def figure_9(study):
    """Where the gain comes from: real dependencies, then the partition, then the micro-batch."""
    header("Figure 9: iteration, and gain over the chain", "model", "devices", "chain (PipeDream's)",
           "the same, real dependencies only", "graph plan at its micro-batch", "graph plan")
    groups = {}
    for model in SAMPLES_PER_DEVICE:
        for devices in (8, 16, 32):
            mini_batch = mini_batch_of(model, devices)
            path, chain = study.plan(model, devices, mini_batch, "pipedream", "--options", "none")
            if path is None:
                line(model, devices, chain["status"], "-", "-", "-")
                continue
            same = study.plan(model, devices, mini_batch, "graphpipe", "--options", "none",
                              "--micro-batch", chain["micro_batch"])[1]
            whole = study.plan(model, devices, mini_batch, "graphpipe", "--options", "none")[1]
            times = [chain["iteration_s"], without_order_edges(study, path),
                     same.get("iteration_s"), whole.get("iteration_s")]
            gains = [time and times[0] / time for time in times]
            groups[f"{model} {devices}"] = dict(zip(("chain", "real edges", "same b", "graph"), gains))
            line(model, devices, f"{1e3 * times[0]:.0f} ms, b {chain['micro_batch']}, depth {chain['depth']}",
                 *(f"{cell(time and 1e3 * time)} ms, {cell(ratio, '{:.2f}x')}"
                   for time, ratio in zip(times[1:], gains[1:])))
    save("figure_9", "gain over PipeDream's chain, one device a stage (simulated)", "gain", groups)


def control(study):
    """A model without branches: nobody is ahead."""
    header("Sequential control: transformer:layers=32, samples/s", "devices", *PLANNERS, "over the best other")
    for devices in (8, 32):
        rows = study.compare("transformer:layers=32", devices, 16 * devices, "--options", study.options[0])
        line(devices, *(cell(throughput(rows[name])) for name in PLANNERS), cell(gain(rows), "{:.3f}x"))


def sensitivity(study):
    """How the gain depends on the mini-batch."""
    header("Sensitivity: gain over the best other at 32 devices by mini-batch", "model", "options",
           *(f"B x {share}" for share in ("1/4", "1/2", "1", "2", "4")))
    for model, widths in [(m, w) for m in SAMPLES_PER_DEVICE for w in study.options]:
        line(model, widths, *(cell(gain(study.compare(model, 32, int(mini_batch_of(model, 32) * share), "--options",
                                              widths, planners=("pipedream", "dapple", "alpa", "graphpipe"))), "{:.2f}x")
                      for share in (0.25, 0.5, 1, 2, 4)))


FIGURES = {"6": figure_6, "7": figure_7, "case": case_study, "9": figure_9, "control": control,
           "sensitivity": sensitivity}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--program", default=str(HERE.parents[1] / "build/full/bin/graphpipe"))
    arguments.add_argument("--emulate", action="store_true", help="figure 6: an emulated column")
    arguments.add_argument("--options", default="none,dp",
                           help="of the planners: one device a stage, several, or both in turn")
    arguments.add_argument("--time-limit", default=60, help="seconds for a search of one planner")
    arguments.add_argument("figures", nargs="*", choices=[[], *FIGURES], help="default: all")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = Study(options, folder)
        for name in options.figures or FIGURES:
            FIGURES[name](study)


if __name__ == "__main__":
    main()

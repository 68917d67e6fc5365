"""What the figures share: running graphpipe, and Markdown tables."""
import argparse
import json
import pathlib
import subprocess
from collections.abc import Iterable
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES_PER_DEVICE = {"mmt": 16, "dlrm": 64, "candle-uno": 256}
PLANNERS = ("pipedream", "piper", "dapple", "alpa", "graphpipe")

Row = dict[str, Any]  # a plan's JSON, or why there is none


class Study:
    def __init__(self, options: argparse.Namespace, folder: str) -> None:
        self.program = pathlib.Path(options.program)
        self.emulated: bool = options.emulate
        self.folder = folder
        self.time_limit_s = options.time_limit
        self.options: list[str] = options.options.split(",")
        self.devices = [int(n) for n in options.devices.split(",")]
        self.data = pathlib.Path(options.data)

    def run(self, *words: Any, program: str = "graphpipe") -> str:
        """Standard output of graphpipe, or of a program beside it."""
        command = [str(self.program.parent / program if program != "graphpipe" else self.program),
                   *map(str, words)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode > 1:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def compare(self, model: str, cluster: str, mini_batch: int, *more: Any,
                planners: Iterable[str] = PLANNERS) -> dict[str, Row]:
        """Planner to its row; infeasible and given up ones too."""
        out = self.run("compare", model, "--cluster", cluster, "--mini-batch", mini_batch, "--planners",
                       ",".join(planners), "--time-limit", self.time_limit_s, "--json", *more)
        return {row["planner"]: row for row in json.loads(out)["plans"]}

    def plan(self, model: str, cluster: str, mini_batch: int, planner: str, *more: Any) -> tuple[str | None, Row]:
        """The plan's path and what it prints; the path is None where there is no plan."""
        path = f"{self.folder}/{planner}.plan.json"
        row = json.loads(self.run("plan", model, "--cluster", cluster, "--mini-batch", mini_batch, "--planner",
                                  planner, "--time-limit", self.time_limit_s, "--json", "-o", path, *more))
        return (path if row["status"] == "ok" else None), row

    def simulate(self, path: str) -> Row:
        return json.loads(self.run("simulate", path, "--json"))

    def emulate(self, path: str) -> float:
        """Seconds an iteration."""
        return json.loads(self.run("train", path, "--emulate", "--json").splitlines()[-1])["measured_iteration_s"]

    def without_order_edges(self, path: str) -> str:
        """The same partition with the dependencies of its tensors only."""
        plan = read_plan(path)
        plan["edges"] = [edge for edge in plan["edges"] if edge["kind"] == "data"]
        free = f"{self.folder}/free.plan.json"
        pathlib.Path(free).write_text(json.dumps(plan))
        return free


def read_plan(path: str) -> Row:
    return json.loads(pathlib.Path(path).read_text())


def mini_batch_of(model: str, devices: int) -> int:
    return SAMPLES_PER_DEVICE[model.split(":")[0]] * devices


def throughput(row: Row | None) -> float | None:
    return row["throughput_samples_per_s"] if row and row["status"] == "ok" else None


def best_of_others(rows: dict[str, Row]) -> Row | None:
    done = [row for name, row in rows.items() if name != "graphpipe" and row["status"] == "ok"]
    return min(done, key=lambda row: row["iteration_s"]) if done else None


def gain(rows: dict[str, Row]) -> float | None:
    """Of the graph plan over the best other; None where either has none."""
    other, own = best_of_others(rows), rows["graphpipe"]
    return other["iteration_s"] / own["iteration_s"] if other and own["status"] == "ok" else None


def depth_of(plan: Row) -> int:
    """Stages on the longest path; stages stand in an order in which they can run."""
    depth = [1] * len(plan["stages"])
    for edge in sorted(plan["edges"], key=lambda edge: edge["to"]):
        depth[edge["to"]] = max(depth[edge["to"]], depth[edge["from"]] + 1)
    return max(depth)


def shape(row: Row) -> str:
    if row["status"] != "ok":
        return row["status"].replace("_", " ")
    return f"{len(row['stages'])} stages, depth {row['depth']}, b {row['micro_batch']}"


def cell(value: float | None, form: str = "{:.0f}") -> str:
    return "-" if value is None else form.format(value)


def header(title: str, *columns: str) -> None:
    print(f"\n### {title}\n\n| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")


def line(*cells: Any) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def save(name: str, svg: str) -> None:
    (HERE / f"{name}.svg").write_text(svg)

"""The case study: two branches on 8 devices. Plans by micro-batch, both schedules drawn, and the gain
taken apart."""
import json
import pathlib

import timeline
from study import Row, Study, cell, depth_of, header, line, read_plan, save

MODEL, CLUSTER, MINI_BATCH = "two-branch", "summit:8", 128


def case_study(study: Study) -> None:
    by_micro_batch(study)
    schedules(study)
    for micro_batch in (2, None):
        decomposition(study, micro_batch)


def planned(study: Study, planner: str, micro_batch: int | None, *more: str) -> tuple[str | None, Row]:
    size = ["--micro-batch", str(micro_batch)] if micro_batch else []
    return study.plan(MODEL, CLUSTER, MINI_BATCH, planner, "--options", "none", *size, *more)


def by_micro_batch(study: Study) -> None:
    header("Case study: two-branch, 8 devices, B = 128, one device a stage", "plan", "b", "depth", "iteration",
           "bubble", "fullest device")
    for planner, micro_batch in [(p, b) for p in ("gpipe", "pipedream", "graphpipe") for b in (1, 2, 4, 8, None)]:
        _, row = planned(study, planner, micro_batch)
        if row["status"] != "ok":
            line(planner, micro_batch or "any", "-", row["status"], "-", "-")
            continue
        memory = max(stage["memory_bytes"] for stage in row["stages"])
        line(planner, row["micro_batch"] if micro_batch else f"best: {row['micro_batch']}", row["depth"],
             f"{1e3 * row['iteration_s']:.1f} ms", f"{100 * row['bubble_fraction']:.1f} %",
             f"{memory / 2**30:.2f} GiB")


def panel(study: Study, title: str, path: str, row: Row) -> timeline.Panel:
    trace = f"{study.folder}/trace.json"
    study.run("simulate", path, "--trace", trace)
    events = json.loads(pathlib.Path(trace).read_text())
    return timeline.Panel(
        f"{title}: depth {row['depth']}, micro-batches of {row['micro_batch']}, "
        f"{1e3 * row['iteration_s']:.1f} ms, {100 * row['bubble_fraction']:.1f} % idle",
        "stages " + stage_graph_text(row), [row_label(stage) for stage in row["stages"]],
        timeline.tasks_of(events if isinstance(events, list) else events["traceEvents"]), row["iteration_s"])


def stage_graph_text(plan: Row) -> str:
    """ "0 > 1 > 2, 3 > 2"; an order edge is ">>"."""
    words, last = [], None
    for edge in sorted(plan["edges"], key=lambda edge: (edge["from"], edge["kind"] == "data")):
        sign = "&gt;&gt; (order only)" if edge["kind"] == "order" else "&gt;"
        words.append(f" {sign} {edge['to']}" if edge["from"] == last
                     else f"{', ' if words else ''}{edge['from']} {sign} {edge['to']}")
        last = edge["to"]
    return "".join(words)


def row_label(stage: Row) -> str:
    """ "3: branch 0, block 3"."""
    branch, block = stage["ops"][0].split(".")[:2]
    return f"{stage['id']}: branch {branch.removeprefix('branch')}, block {block.removeprefix('block')}"


def schedules(study: Study) -> None:
    """The best chain and the best graph plan, as simulated."""
    panels = []
    for title, planner in (("Chain", "pipedream"), ("Graph", "graphpipe")):
        path, row = planned(study, planner, None)
        if path is None:
            return
        panels.append(panel(study, title, path, row))
    save("case_study", timeline.svg(panels))


def busy_ms(study: Study, path: str) -> float:
    """Computing, mean over all devices."""
    devices = study.simulate(path)["devices"]
    return 1e3 * sum(device["busy_s"] for device in devices) / len(devices)


def decomposition(study: Study, micro_batch: int | None) -> None:
    """From the chain at a size to the graph plan at its own, step by step. An iteration is what the devices
    compute and what they wait, on average: steps of structure change the waiting, the size changes both."""
    path, chain = planned(study, "pipedream", micro_batch)
    if path is None:
        return
    size = chain["micro_batch"]
    header(f"Case study: from the chain at b = {size} to the graph plan", "step", "b", "depth", "iteration",
           "computing", "waiting", "faster by the step", "in all")
    first = previous = Step(study, path)
    print_step("the chain", size, first, previous, first)
    for text, step_size, step_path in steps(study, path, size):
        if step_path is None:
            line(text, step_size, *["-"] * 6)
            continue
        step = Step(study, step_path)
        print_step(text, step_size, step, previous, first)
        previous = step


def steps(study: Study, chain: str, size: int) -> list[tuple[str, int | str, str | None]]:
    """Copies, since plans of one planner are written to one file."""
    free = study.without_order_edges(chain)
    out: list[tuple[str, int | str, str | None]] = [("real dependencies only", size, free)]
    for text, micro_batch, more in (("graph plan at this b", size, []), ("graph plan at its b", None, []),
                                    ("sizes of a stage's own", None, ["--per-stage-micro-batch"])):
        path, row = planned(study, "graphpipe", micro_batch, *more)
        if path is not None:
            path = str(pathlib.Path(path).rename(f"{study.folder}/step{len(out)}.plan.json"))
        out.append((text, row.get("micro_batch") or "mixed", path))
    return out


class Step:
    def __init__(self, study: Study, path: str) -> None:
        self.depth = depth_of(read_plan(path))
        self.iteration_ms = 1e3 * study.simulate(path)["iteration_s"]
        self.busy_ms = busy_ms(study, path)


def print_step(text: str, size: int | str, step: Step, previous: Step, first: Step) -> None:
    line(text, size, step.depth, f"{step.iteration_ms:.1f} ms", f"{step.busy_ms:.1f} ms",
         f"{step.iteration_ms - step.busy_ms:.1f} ms",
         "" if step is first else f"{100 * (previous.iteration_ms / step.iteration_ms - 1):.1f} %",
         cell(first.iteration_ms / step.iteration_ms, "{:.3f}x"))

"""Figure 6: throughput of the three models on 4 to 32 devices; Table 1: the time to find the plans."""
import bars
from study import (PLANNERS, SAMPLES_PER_DEVICE, Row, Study, best_of_others, cell, gain, header, line,
                   mini_batch_of, save, shape, throughput)


def emulated_gain(study: Study, model: str, devices: int, widths: str, other: Row) -> str:
    """Of iterations that really ran, operators sleeping for their modelled time."""
    times = []
    for planner in ("graphpipe", other["planner"]):
        path, _ = study.plan(model, f"summit:{devices}", mini_batch_of(model, devices), planner, "--options", widths)
        if path is None:
            return "-"
        times.append(study.emulate(path))
    return f"{times[1] / times[0]:.2f}x ({1e3 * times[1]:.0f} / {1e3 * times[0]:.0f} ms)"


def figure_6(study: Study) -> None:
    searches = []
    header("Figure 6: samples/s", "model", "options", "devices", *PLANNERS, "over the best other", "graph plan",
           "best other", *(["emulated"] if study.emulated else []))
    for model, widths in [(m, w) for m in SAMPLES_PER_DEVICE for w in study.options]:
        groups = {}
        for devices in study.devices:
            rows = study.compare(model, f"summit:{devices}", mini_batch_of(model, devices), "--options", widths)
            searches.append((model, widths, devices, rows))
            groups[str(devices)] = {name: throughput(rows[name]) for name in PLANNERS}
            other = best_of_others(rows)
            cells = [model, widths, devices, *(cell(throughput(rows[name])) for name in PLANNERS),
                     cell(gain(rows), "{:.2f}x"), shape(rows["graphpipe"]),
                     f"{other['planner']}: {shape(other)}" if other else "-"]
            if study.emulated:
                cells.append(emulated_gain(study, model, devices, widths, other) if other else "-")
            line(*cells)
        if len(study.devices) > 2:
            save(f"figure_6_{model}_{widths}",
                 bars.svg(f"{model}, options {widths}, by devices of summit (simulated)", "samples/s", groups))
    table_1(searches)


def table_1(searches: list[tuple[str, str, int, dict[str, Row]]]) -> None:
    header("Table 1: seconds to find the plan", "model", "options", "devices", *PLANNERS)
    for model, widths, devices, rows in searches:
        line(model, widths, devices, *(f"{rows[name]['search_s']:.2f}" + ("" if rows[name]["status"] == "ok"
             else f" ({rows[name]['status'].replace('_', ' ')})") for name in PLANNERS))

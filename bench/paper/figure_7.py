"""Figure 7: the gain by the number of branches, at 32 devices."""
import bars
from study import PLANNERS, Study, cell, gain, header, line, save, shape, throughput

BRANCHES = (2, 4, 8, 16)
CLUSTER = "summit:32"


def figure_7(study: Study) -> None:
    header("Figure 7: branches of CANDLE-Uno, 32 devices", "branches", "options", "mini-batch", *PLANNERS,
           "over the best other", "graph plan")
    groups = {}
    for branches, widths in [(n, w) for n in BRANCHES for w in study.options]:
        for mini_batch in (2048, 8192):
            rows = study.compare(f"candle-uno:branches={branches}", CLUSTER, mini_batch, "--options", widths)
            if widths == study.options[0]:
                groups[f"{branches}, B {mini_batch}"] = {name: throughput(rows[name]) for name in PLANNERS}
            line(branches, widths, mini_batch, *(cell(throughput(rows[name])) for name in PLANNERS),
                 cell(gain(rows), "{:.2f}x"), shape(rows["graphpipe"]))
    save("figure_7", bars.svg(f"candle-uno by branches, 32 devices, options {study.options[0]} (simulated)",
                              "samples/s", groups, width=760))
    fixed_sizes(study)


def fixed_sizes(study: Study) -> None:
    sizes = (64, 128, 256, 512)
    header("Figure 7, fixed micro-batches: gain over the best other", "branches", *(f"b = {b}" for b in sizes))
    for branches in BRANCHES:
        line(branches, *(cell(gain(study.compare(f"candle-uno:branches={branches}", CLUSTER, 2048, "--micro-batch", b,
                                                 "--options", study.options[0])), "{:.2f}x") for b in sizes))

"""How the gain depends on the mini-batch and on what the cost model assumes of small batches."""
from study import SAMPLES_PER_DEVICE, Study, cell, header, line, mini_batch_of

VARIANTS = {"frozen": "frozen", "flat": "flat r", "launch/2": "launch x 1/2", "launch*2": "launch x 2"}
SHARES = {"1/4": 0.25, "1/2": 0.5, "1": 1, "2": 2, "4": 4}
OTHERS = ("pipedream", "dapple", "alpa")  # Piper is never ahead of them, and gives up at 32 devices


def variant_gains(study: Study, model: str, devices: int, mini_batch: int, widths: str) -> list[str]:
    """A cell a variant: the gain, and the micro-batches of the best other and of the graph plan."""
    out = study.run(model, f"summit:{devices}", mini_batch, widths, *OTHERS, "graphpipe", program="cost_sensitivity")
    rows = [text.split("\t") for text in out.splitlines()]
    cells = []
    for variant in VARIANTS:
        plans = {planner: (float(seconds), b) for name, planner, seconds, b, _ in rows
                 if name == variant and seconds != "-"}
        own = plans.pop("graphpipe", None)
        other = min(plans.values(), default=None)
        cells.append(f"{other[0] / own[0]:.2f}x (b {other[1]}, {own[1]})" if own and other else cell(None))
    return cells


def sensitivity(study: Study) -> None:
    header("Sensitivity: gain over the best other (its micro-batch, the graph plan's)", "model", "devices", "options",
           "B", *VARIANTS.values())
    cases = [("two-branch", 8, 128, ["none"]),
             *((model, 32, mini_batch_of(model, 32), study.options) for model in SAMPLES_PER_DEVICE),
             ("candle-uno:branches=16", 32, 8192, study.options)]
    for model, devices, mini_batch, options in cases:
        for widths, share in [(w, s) for w in options for s in SHARES]:
            size = int(mini_batch * SHARES[share])
            line(model, devices, widths, f"{size} (x {share})", *variant_gains(study, model, devices, size, widths))

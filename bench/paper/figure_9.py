"""Figure 9: where the gain comes from; and the control, a model without branches."""
import bars
from study import (PLANNERS, SAMPLES_PER_DEVICE, Study, cell, gain, header, line, mini_batch_of, save,
                   throughput)

PARTS = ("chain", "real edges", "same b", "graph")


def figure_9(study: Study) -> None:
    """Real dependencies, then the partition, then the micro-batch."""
    header("Figure 9: iteration, and gain over the chain", "model", "devices", "chain (PipeDream's)",
           "the same, real dependencies only", "graph plan at its micro-batch", "graph plan")
    groups = {}
    for model, devices in [(m, n) for m in SAMPLES_PER_DEVICE for n in (8, 16, 32)]:
        cluster, mini_batch = f"summit:{devices}", mini_batch_of(model, devices)
        path, chain = study.plan(model, cluster, mini_batch, "pipedream", "--options", "none")
        if path is None:
            line(model, devices, chain["status"], "-", "-", "-")
            continue
        same = study.plan(model, cluster, mini_batch, "graphpipe", "--options", "none", "--micro-batch",
                          chain["micro_batch"])[1]
        whole = study.plan(model, cluster, mini_batch, "graphpipe", "--options", "none")[1]
        times = [chain["iteration_s"], study.simulate(study.without_order_edges(path))["iteration_s"],
                 same.get("iteration_s"), whole.get("iteration_s")]
        gains = [time and times[0] / time for time in times]
        groups[f"{model} {devices}"] = dict(zip(PARTS, gains))
        line(model, devices, f"{1e3 * times[0]:.0f} ms, b {chain['micro_batch']}, depth {chain['depth']}",
             *(f"{cell(time and 1e3 * time)} ms, {cell(ratio, '{:.2f}x')}"
               for time, ratio in zip(times[1:], gains[1:])))
    save("figure_9", bars.svg("over PipeDream's chain, by devices, one device a stage (simulated)", "gain", groups,
                              width=1000))


def control(study: Study) -> None:
    """Nobody is ahead."""
    header("Sequential control: transformer:layers=32, samples/s", "devices", *PLANNERS, "over the best other")
    for devices in (8, 32):
        rows = study.compare("transformer:layers=32", f"summit:{devices}", 16 * devices, "--options",
                             study.options[0])
        line(devices, *(cell(throughput(rows[name])) for name in PLANNERS), cell(gain(rows), "{:.3f}x"))

"""Figure 5: micro-batch sizes of a stage's own."""
import json

from study import SAMPLES_PER_DEVICE, Study, cell, header, line, mini_batch_of, read_plan

CASES = [("two-branch", 8, 128), *((model, devices, mini_batch_of(model, devices))
                                   for model in SAMPLES_PER_DEVICE for devices in (8, 32))]


def sizes_text(plan: dict) -> str:
    """How many stages have which size: "7 x 4, 1 x 8"."""
    sizes = [stage["micro_batch"] for stage in plan["stages"]]
    return ", ".join(f"{sizes.count(b)} x {b}" for b in sorted(set(sizes)))


def figure_5(study: Study) -> None:
    header("Figure 5: micro-batch sizes of a stage's own", "model", "options", "devices", "one size",
           "sizes of their own", "gain", "stages x size", "fullest device")
    for (model, devices, mini_batch), widths in [(case, w) for case in CASES for w in study.options]:
        words = (model, f"summit:{devices}", mini_batch, "graphpipe", "--options", widths)
        _, one = study.plan(*words)
        path, own = study.plan(*words, "--per-stage-micro-batch")
        if path is None or one["status"] != "ok":
            line(model, widths, devices, one["status"], own["status"], "-", "-", "-")
            continue
        line(model, widths, devices, f"{1e3 * one['iteration_s']:.1f} ms, b {one['micro_batch']}",
             f"{1e3 * own['iteration_s']:.1f} ms", f"{one['iteration_s'] / own['iteration_s']:.3f}x",
             sizes_text(own), f"{fullest(one):.2f} -> {fullest(own):.2f} GiB")
    known_answers(study)


def fullest(plan: dict) -> float:
    return max(stage["memory_bytes"] for stage in plan["stages"]) / 2**30


def linear_chain(study: Study) -> str:
    """Three operators of 1 s forward and 2 s backward a sample, whatever the micro-batch."""
    path = f"{study.folder}/chain.graph.json"
    names = ["in", "a", "b", "c"]
    tensors = [{"name": name, "dtype": "float32", "shape": [1]} for name in names]
    ops = [{"name": out, "kind": "opaque", "inputs": [source], "params": [f"{out}.w"], "outputs": [out, *loss],
            "attributes": {"forward_s": 1.0, "backward_s": 2.0, "saved_bytes": 0, "loss": bool(loss),
                           "elements": [1]}}
           for source, out, loss in (("in", "a", []), ("a", "b", []), ("b", "c", ["loss"]))]
    graph = {"format": "graphpipe-graph", "version": 1, "name": "chain",
             "tensors": [*tensors, {"name": "loss", "dtype": "float32", "shape": []}],
             "params": [{"name": f"{name}.w", "dtype": "float32", "shape": [1],
                         "init": {"kind": "zeros"}} for name in names[1:]],
             "ops": ops, "inputs": ["in"], "losses": [{"tensor": "loss"}]}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(graph, file)
    return path


def known_answers(study: Study) -> None:
    """Where nothing is lost with small batches: sizes 4,4,4 against sizes 1,2,4, by hand."""
    header("Figure 5, as drawn: a chain of three equal stages whose tasks take 1 s and 2 s a sample, links free",
           "B", "4, 4, 4", "1, 2, 4", "gain")
    model = linear_chain(study)
    for mini_batch in (16, 32, 64):
        path, _ = study.plan(model, "h100:3,node-bandwidth=1e15B/s", mini_batch, "graphpipe", "--options", "none",
                             "--micro-batch", 4, "--all-devices")
        if path is None:
            line(mini_batch, "-", "-", "-")
            continue
        times = [study.simulate(with_sizes(path, *case))["iteration_s"]
                 for case in (((4, 4, 4), (12, 8, 4)), ((1, 2, 4), (10, 8, 4)))]
        line(mini_batch, *(cell(time, "{:.0f} s") for time in times), f"{times[0] / times[1]:.2f}x")


def with_sizes(path: str, sizes: tuple[int, ...], in_flight: tuple[int, ...]) -> str:
    plan = read_plan(path)
    for stage, size, samples in zip(plan["stages"], sizes, in_flight):
        stage["micro_batch"], stage["in_flight_samples"] = size, samples
    with open(path, "w", encoding="utf-8") as file:
        json.dump(plan, file)
    return path

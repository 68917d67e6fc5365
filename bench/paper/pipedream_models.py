"""PipeDream's profiles as models: on its clusters, with what its plans send."""
import json
import pathlib
from typing import NamedTuple

from study import Row, Study

PORTION = 32  # images: the least that a device runs at once, for the profiles tell of no smaller tasks
IMAGES = {"vgg16": 128, "alexnet": 256, "resnet50": 128, "inception_v3": 128}  # a profiled mini-batch
V100 = {"name": "V100-32GB", "peak_flops_per_s": 15.7e12, "memory_bandwidth_bytes_per_s": 900e9,
        "memory_bytes": 32 << 30}
LATENCY_S = 25e-6


class Model(NamedTuple):
    name: str
    profile: pathlib.Path
    graph: str  # a sample is PORTION images
    images: int  # a mini-batch of the profile; each device's share of a mini-batch of data parallelism
    compute_s: float  # of one, on one device
    parameter_bytes: list[int]  # by operator

    @property
    def samples(self) -> int:
        return self.images // PORTION


def model_of(study: Study, name: str) -> Model:
    profile = study.data / "pipedream" / f"{name}.graph.txt"
    path = f"{study.folder}/{name}.graph.json"
    study.run("import", profile, "-o", path)
    graph = json.loads(pathlib.Path(path).read_text())
    compute_s = sum(op["attributes"][key] for op in graph["ops"] for key in ("forward_s", "backward_s"))
    in_portions(graph, IMAGES[name] // PORTION)
    pathlib.Path(path).write_text(json.dumps(graph))
    sizes = {param["name"]: 4 * product(param["shape"]) for param in graph["params"] if param.get("trainable", True)}
    return Model(name, profile, path, IMAGES[name], compute_s,
                 [sum(sizes.get(param, 0) for param in op.get("params", [])) for op in graph["ops"]])


def in_portions(graph: Row, share: int) -> None:
    """A sample becomes that part of what it is. Costs of profiles are linear in samples, so this changes only
    into how many a mini-batch can be divided."""
    for op in graph["ops"]:
        costs = op["attributes"]
        costs["forward_s"] /= share
        costs["backward_s"] /= share
        costs["saved_bytes"] //= share
        costs["elements"] = [part(count, share) for count in costs["elements"]]
    for tensor in graph["tensors"]:
        tensor["shape"] = [part(size, share) for size in tensor["shape"]]


def part(count: int, share: int) -> int:
    return count // share if count % share == 0 else max(1, round(count / share))


def product(shape: list[int]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


def cluster_of(study: Study, machines: int, gigabits_per_s: int) -> str:
    """A GPU a machine, a port each."""
    path = f"{study.folder}/{machines}x{gigabits_per_s}.cluster.json"
    level = {"name": "network", "group_size": machines, "bandwidth_bytes_per_s": gigabits_per_s * 1e9 / 8,
             "latency_s": LATENCY_S}
    pathlib.Path(path).write_text(json.dumps(
        {"format": "graphpipe-cluster", "version": 1, "name": f"{gigabits_per_s} Gb/s", "types": [V100],
         "devices": [{"type": 0, "count": machines}], "levels": [level]}))
    return path


def reduced_bytes(parameter_bytes: float, replicas: int) -> float:
    """That all replicas together send for one reduction, by a ring."""
    return 2 * (replicas - 1) * parameter_bytes


def cut_bytes(plan: Row) -> float:
    """Tensors and their gradients between stages, an image."""
    return sum(edge["bytes_per_sample"] * (2 if edge["gradient"] else 1)
               for edge in plan["edges"] if edge["kind"] == "data") / PORTION


def sent_bytes(model: Model, plan: Row, asynchronous: bool) -> float:
    """By all devices, an image: synchronous, with a reduction a mini-batch; asynchronous, with one whenever each
    replica has done a mini-batch of the profile."""
    sent = cut_bytes(plan)
    for stage in plan["stages"]:
        replicas = len(stage["devices"])
        images = replicas * model.images if asynchronous else plan["mini_batch"] * PORTION
        sent += reduced_bytes(sum(model.parameter_bytes[op] for op in stage["op_ids"]), replicas) / images
    return sent


def replicas_text(plan: Row) -> str:
    """ "7-1"; "16 x 1"."""
    replicas = [len(stage["devices"]) for stage in plan["stages"]]
    return f"{len(replicas)} x 1" if len(replicas) > 2 and set(replicas) == {1} else "-".join(map(str, replicas))

"""The problems of the bench: models of the zoo, random graphs and sequential controls."""
import dataclasses
import random

import random_models

MIB = 1 << 20


@dataclasses.dataclass
class Problem:
    family: str  # zoo, control, random-sp, random-dag, random-chain
    model: str  # a zoo argument, or a file's name within the folder of graphs
    cluster: str
    mini_batch: int
    options: str

    def arguments(self, graphs):
        model = str(graphs / self.model) if self.model.endswith(".json") else self.model
        return [model, "--cluster", self.cluster, "--mini-batch", str(self.mini_batch),
                "--options", self.options]


# Model, samples a device, numbers of devices.
ZOO = [
    ("mmt", 16, (2, 4, 8, 16, 32)),
    ("mmt:branches=2", 16, (4, 8, 16, 32)),
    ("mmt:branches=8,layers=4", 16, (4, 8, 16, 32, 64)),
    ("mmt:branches=3,layers=5", 16, (4, 8, 16)),
    ("dlrm", 64, (4, 8, 16, 32)),
    ("dlrm:entries=100000", 64, (2, 4, 8, 16, 32)),
    ("dlrm:branches=3,tables=5,entries=200000", 64, (4, 8, 16)),
    ("candle-uno", 256, (4, 8, 16, 32)),
    ("candle-uno:variant=flexflow", 256, (4, 8, 16)),
    ("candle-uno:branches=16", 256, (8, 16, 32)),
    ("two-branch", 16, (2, 4, 8, 16)),
    ("two-branch:blocks=3", 16, (4, 8, 12)),
    ("movielens", 256, (2, 4, 8)),
    ("digits", 64, (2, 4)),
    ("resnet50", 16, (4, 8)),
    ("unet", 2, (4, 8)),
]
CONTROLS = [
    ("transformer:layers=8", 16, (2, 4, 8, 16)),
    ("transformer:layers=13", 16, (4, 8)),
    ("transformer", 16, (4, 8, 16, 32)),
    ("vgg16", 16, (2, 4, 8)),
]


def zoo(family, rows):
    for model, per_device, counts in rows:
        for devices in counts:
            for factor in (1, 0.25):
                mini_batch = max(2, int(factor * per_device * devices))
                yield Problem(family, model, f"summit:{devices}", mini_batch, "dp")
            yield Problem(family, model, f"summit:{devices}", per_device * devices, "none")


# Little memory: a plan may need recomputation, or none may fit.
def tight():
    rows = [
        ("mmt", 8, 128, ("2GiB", "1GiB", "512MiB")),
        ("mmt", 32, 512, ("1GiB", "512MiB", "256MiB")),
        ("mmt:branches=2", 8, 128, ("1GiB", "512MiB")),
        ("two-branch", 8, 128, ("512MiB", "256MiB")),
        ("dlrm:entries=100000", 8, 512, ("1GiB", "512MiB")),
        ("candle-uno", 8, 2048, ("1GiB", "512MiB", "384MiB")),
        ("transformer", 8, 128, ("2GiB", "1GiB")),
        ("vgg16", 4, 64, ("2GiB", "1GiB")),
        ("resnet50", 4, 64, ("2GiB",)),
    ]
    for model, devices, mini_batch, memories in rows:
        family = "control" if model in ("transformer", "vgg16") else "zoo"
        for memory in memories:
            for options in ("dp", "dp,recompute"):
                yield Problem(family, model, f"summit:{devices},memory={memory}", mini_batch, options)


# Half of them on devices that hold little more than their part of the parameters.
def random_problems(graphs, family, make, count):
    for seed in range(count):
        builder = make(seed)
        name = f"{family}-{seed}.graph.json"
        builder.write(graphs / name)
        rng = random.Random(f"problem {family} {seed}")
        devices = rng.choice((2, 3, 4, 6, 8, 16))
        cluster = f"summit:{devices}"
        if rng.random() < 0.5:
            share = 2 * builder.parameter_bytes() / min(devices, 6)
            cluster += f",memory={int(share * rng.uniform(1.2, 4) / MIB) + 16}MiB"
        mini_batch = rng.choice((16, 64, 256, 1000, 2048))
        options = rng.choice(("none", "dp", "dp", "dp,recompute"))
        yield Problem(family, name, cluster, mini_batch, options)


def all_problems(graphs):
    problems = list(zoo("zoo", ZOO)) + list(zoo("control", CONTROLS)) + list(tight())
    problems += random_problems(graphs, "random-sp", random_models.random_series_parallel, 40)
    problems += random_problems(graphs, "random-dag", random_models.random_dag, 30)
    problems += random_problems(graphs, "random-chain", random_models.random_chain, 12)
    return problems

"""Random computation graphs, from a seed, in this project's graph JSON.

Vectors only: linear layers, activations and layer norms, joined by add or concat, with an
embedding now and then. Sizes differ by a factor of 16, so that stages are hard to balance.
"""
import json
import random

WIDTHS = (256, 512, 1024, 2048, 4096)
BYTES_PER_NUMBER = 4


class Builder:
    def __init__(self, name):
        self.graph = {
            "format": "graphpipe-graph",
            "version": 1,
            "name": name,
            "tensors": [],
            "params": [],
            "ops": [],
            "inputs": [],
        }
        self.width = {}

    def parameter_bytes(self):
        total = 0
        for param in self.graph["params"]:
            count = 1
            for extent in param["shape"]:
                count *= extent
            total += BYTES_PER_NUMBER * count
        return total

    def tensor(self, name, width, dtype="float32", shape=None):
        shape = [width] if shape is None else shape
        self.graph["tensors"].append({"name": name, "dtype": dtype, "shape": shape})
        self.width[name] = width
        return name

    def input(self, width, dtype="float32", shape=None):
        name = f"input{len(self.graph['inputs'])}"
        self.graph["inputs"].append(name)
        return self.tensor(name, width, dtype, shape)

    def operator(self, kind, inputs, width, params=(), attributes=None, shape=None):
        name = f"{kind}{len(self.graph['ops'])}"
        names = []
        for suffix, extents in params:
            names.append(f"{name}.{suffix}")
            self.graph["params"].append(
                {
                    "name": names[-1],
                    "dtype": "float32",
                    "shape": extents,
                    "init": {"kind": "uniform", "scale": 0.01},
                }
            )
        operator = {"name": name, "kind": kind, "inputs": list(inputs)}
        if names:
            operator["params"] = names
        operator["outputs"] = [name]
        if attributes:
            operator["attributes"] = attributes
        self.graph["ops"].append(operator)
        return self.tensor(name, width, shape=shape)

    def linear(self, x, width):
        params = [("weight", [width, self.width[x]]), ("bias", [width])]
        return self.operator("linear", [x], width, params)

    def norm(self, x):
        width = self.width[x]
        params = [("weight", [width]), ("bias", [width])]
        return self.operator("layer_norm", [x], width, params, {"epsilon": 1e-5})

    def embedding(self, entries, width):
        ids = self.input(1, "int64", [])
        return self.operator("embedding", [ids], width, [("weight", [entries, width])])

    def join(self, random_numbers, xs):
        if len(xs) == 1:
            return xs[0]
        widths = [self.width[x] for x in xs]
        if len(set(widths)) == 1 and random_numbers.random() < 0.5:
            return self.operator("add", xs, widths[0])
        return self.operator("concat", xs, sum(widths), attributes={"axis": -1})

    def finish(self, x):
        x = self.linear(x, 16)
        target = self.input(16)
        self.operator("mse_loss", [x, target], 1, shape=[])
        loss = self.graph["ops"][-1]["outputs"][0]
        self.graph["losses"] = [
            {"tensor": loss, "weight": 1, "normaliser": "mean_over_samples"}
        ]

    def write(self, path):
        path.write_text(json.dumps(self.graph))


def some_operator(builder, rng, x):
    kind = rng.random()
    if kind < 0.7:
        return builder.linear(x, rng.choice(WIDTHS))
    if kind < 0.85:
        return builder.norm(x)
    return builder.operator(rng.choice(("relu", "gelu")), [x], builder.width[x])


def series(builder, rng, x, operators):
    """A series-parallel piece of about so many operators, from x."""
    while operators > 0:
        if operators < 4 or rng.random() < 0.45:
            x = some_operator(builder, rng, x)
            operators -= 1
            continue
        branches = rng.randint(2, 5)
        share = max(1, rng.randint(operators // 2, operators) // branches)
        equal = rng.random() < 0.4
        seed = rng.random()
        ends = []
        for branch in range(branches):
            numbers = random.Random(f"{seed} {0 if equal else branch}")
            ends.append(series(builder, numbers, x, share if equal else numbers.randint(1, 2 * share)))
        x = builder.join(rng, ends)
        operators -= share * branches + 1
    return x


def random_series_parallel(seed):
    rng = random.Random(f"series-parallel {seed}")
    builder = Builder(f"random-sp-{seed}")
    towers = [builder.linear(builder.input(1024), 1024)]
    for _ in range(rng.choice((0, 0, 1, 3))):
        towers.append(builder.embedding(rng.choice((1000, 100000)), rng.choice((64, 256, 1024))))
    ends = [series(builder, rng, x, rng.randint(2, 14)) for x in towers]
    x = series(builder, rng, builder.join(rng, ends), rng.randint(6, 30))
    builder.finish(x)
    return builder


def random_dag(seed):
    rng = random.Random(f"dag {seed}")
    builder = Builder(f"random-dag-{seed}")
    values = [builder.linear(builder.input(1024), 1024)]
    unread = set(values)
    reach = rng.choice((3, 6, 12))
    for _ in range(rng.randint(10, 36)):
        count = min(len(values), rng.choice((1, 1, 1, 2, 2, 3)))
        xs = rng.sample(values[-reach:], min(count, len(values[-reach:])))
        unread -= set(xs)
        x = some_operator(builder, rng, builder.join(rng, xs))
        values.append(x)
        unread.add(x)
    builder.finish(builder.join(rng, [x for x in values if x in unread]))
    return builder


def random_chain(seed):
    rng = random.Random(f"chain {seed}")
    builder = Builder(f"random-chain-{seed}")
    x = builder.linear(builder.input(1024), 1024)
    for _ in range(rng.randint(8, 40)):
        x = some_operator(builder, rng, x)
    builder.finish(x)
    return builder

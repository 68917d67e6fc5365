"""Modules of PyTorch against graphpipe: the same weights and samples give the same loss and gradients.

    export_test.py PATH/TO/graphpipe [TestCase[.test]]

A gradient is what a step of plain SGD takes off a weight, over the learning rate. Which samples a
step sees is graphpipe's split by seed, done here again (src/data/dataset.cc).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    print("skipped: this Python has no PyTorch (Debian: python3-torch)")
    sys.exit(77)
from torch import nn

sys.path.insert(0, os.environ.get("GRAPHPIPE_EXPORT", "python"))
import graphpipe_export  # noqa: E402

GRAPHPIPE = sys.argv[1] if len(sys.argv) > 1 else "graphpipe"
SAMPLES = 40
MASK = (1 << 64) - 1
DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.int64: "int64"}


def hash_bytes(text):
    h = 0xcbf29ce484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001b3) & MASK
    return h


def mix_bits(x):
    x = (x + 0x9e3779b97f4a7c15) & MASK
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & MASK
    return x ^ (x >> 31)


def combine_hash(a, b):
    return mix_bits(a ^ mix_bits(b))


def training_samples(count, seed):
    key = combine_hash(0x243f6a8885a308d3, combine_hash(seed, hash_bytes("split")))
    ids = list(range(count))
    for i in range(count, 1, -1):
        j = combine_hash(key, i) % i
        ids[i - 1], ids[j] = ids[j], ids[i - 1]
    return ids[:count - 2 * (count // 10)]


class TwoTower(nn.Module):
    """Users and items by towers of their own, and their product."""

    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(50, 16)
        self.user = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 24), nn.LayerNorm(24))
        self.tags = nn.EmbeddingBag(30, 16, mode="mean")
        self.item = nn.Sequential(nn.Linear(16 + 5, 32), nn.GELU(), nn.Linear(32, 24))
        self.bias = nn.Parameter(torch.randn(1) * 0.1)

    def forward(self, user, tags, features):
        u = self.user(self.users(user))
        i = torch.tanh(self.item(torch.cat([self.tags(tags), features], dim=1)))
        return (u * i).sum(dim=-1) / 24 ** 0.5 + self.bias

    def batch(self, n, dtype):
        return {"user": torch.randint(50, (n,)), "tags": torch.randint(30, (n, 4)),
                "features": torch.randn(n, 5, dtype=dtype)}


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 6, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.wide = nn.Conv2d(6, 8, 3, stride=2, groups=2)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x):
        y = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return self.pool(nn.functional.leaky_relu(self.wide(y))).flatten(1)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.place = nn.Parameter(torch.randn(6, 8) * 0.1)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.lstm = nn.LSTM(8, 7, batch_first=True)
        self.gate = nn.SiLU()

    def forward(self, ids):
        x = self.table(ids) + self.place
        x = x + self.attention(x, x, x)[0]
        halves = x.chunk(2, dim=1)
        scores = torch.softmax(halves[0] @ halves[1].transpose(1, 2) * 0.3, dim=1)
        steps = self.lstm(x)[0]
        return torch.cat([self.gate(steps[:, -1]), scores.reshape(ids.size(0), -1),
                          x.mean(dim=1, keepdim=True).squeeze(1)], dim=-1)


class ManyOperators(nn.Module):
    def __init__(self):
        super().__init__()
        self.images, self.words = Images(), Words()
        self.head = nn.Linear(8 + 7 + 9 + 8, 10)
        self.again = nn.Linear(10, 10)
        self.again.weight = self.head_weight = nn.Parameter(torch.randn(10, 10) * 0.2)
        self.last = nn.Linear(10, 10)
        self.last.weight = self.again.weight  # tied

    def forward(self, image, words):
        x = torch.stack([self.head(torch.cat([self.images(image), self.words(words)], 1))], 1)
        y = self.last(self.again(x)[:, 0]) - x[..., 0, :].clamp(-1, 1)
        return nn.functional.log_softmax(y, dim=1)

    def batch(self, n, dtype):
        return {"image": torch.randn(n, 2, 10, 10, dtype=dtype), "words": torch.randint(20, (n, 6))}


def write_data(folder, fields):
    folder.mkdir()
    entries = []
    for name, values in fields.items():
        (folder / f"{name}.bin").write_bytes(values.contiguous().numpy().tobytes())
        entries.append({"name": name, "dtype": DTYPES[values.dtype],
                        "shape": list(values.shape[1:]), "file": f"{name}.bin"})
    (folder / "manifest.json").write_text(json.dumps(
        {"format": "graphpipe-dataset", "version": 1, "name": folder.name,
         "samples": len(values), "fields": entries}))


def read_weights(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, values = json.loads(data[8:8 + length]), data[8 + length:]
    kinds = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}
    weights = {}
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        weights[name] = torch.frombuffer(bytearray(values[begin:end]),
                                         dtype=kinds[entry["dtype"]]).reshape(entry["shape"])
    return weights


def relative_error(found, right):
    return ((found - right).norm() / right.norm().clamp_min(1e-300)).item()


class Gradients(unittest.TestCase):
    def graphpipe(self, *arguments):
        done = subprocess.run([GRAPHPIPE, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"graphpipe {arguments}: {done.stderr}")
        return done.stdout

    def check(self, module, loss, ranks, dtype, tolerance):
        torch.manual_seed(3)
        module = module.to(dtype)
        inputs = module.batch(SAMPLES, dtype)
        ids = training_samples(SAMPLES, seed=1)
        # A large step, so that rounding the new weights does not hide what was taken off them.
        rate = 1024.0
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            graphpipe_export.export(module, inputs, folder / "net.graph.json", loss=loss)
            module.train()
            predicted = module(**{k: v[ids] for k, v in inputs.items()})
            if loss == "mse":
                labels = torch.randn(SAMPLES, dtype=dtype)
                right = nn.functional.mse_loss(predicted, labels[ids])
            else:
                labels = torch.randint(10, (SAMPLES,))
                right = nn.functional.cross_entropy(predicted, labels[ids])
            right.backward()
            write_data(folder / "data", {**inputs, "label": labels})
            self.graphpipe("plan", folder / "net.graph.json", "--cluster", f"local:{ranks}",
                           "--mini-batch", len(ids), "--micro-batch", len(ids), "--options", "none",
                           "--all-devices", "-o", folder / "plan.json")
            lines = self.graphpipe("train", folder / "plan.json", "--data", folder / "data",
                                   "--iterations", 1, "--optimizer", "sgd", "--lr", rate, "--json",
                                   "--save-weights", folder / "after.safetensors")
            before = read_weights(folder / "net.graph.safetensors")
            after = read_weights(folder / "after.safetensors")
        found = json.loads(lines.splitlines()[0])["loss"]
        self.assertLess(abs(found - right.item()) / abs(right.item()), tolerance)
        # Of a parameter by norm over the largest gradient: some are nothing but rounding (the
        # bias of attention's keys).
        largest = max(p.grad.norm() for p in module.parameters())
        names = dict(module.named_parameters())
        self.assertEqual(set(names), {n for n in after if n in names})
        for n, p in names.items():
            gradient = (before[n].double() - after[n].double()) / rate
            error = (gradient - p.grad.double()).norm() / max(p.grad.norm(), 1e-6 * largest)
            self.assertLess(error.item(), tolerance, n)

    def test_a_two_tower_model_on_two_ranks_in_float32(self):
        self.check(TwoTower(), "mse", 2, torch.float32, 1e-5)

    def test_a_two_tower_model_on_two_ranks_in_float64(self):
        self.check(TwoTower(), "mse", 2, torch.float64, 1e-11)

    def test_many_operators_in_float64(self):
        self.check(ManyOperators(), "cross_entropy", 1, torch.float64, 1e-11)


class Refusals(unittest.TestCase):
    def refused(self, module, inputs, **options):
        with tempfile.TemporaryDirectory() as name:
            with self.assertRaises(graphpipe_export.ExportError) as caught:
                graphpipe_export.export(module, inputs, pathlib.Path(name) / "net.graph.json",
                                        **options)
        return str(caught.exception)

    def test_all_that_is_not_supported_is_listed_with_counts(self):
        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                self.slope = nn.PReLU()

            def forward(self, x):
                return torch.roll(self.slope(x) + torch.roll(self.slope(x), 1, 1), 1, 1)
        self.assertEqual(self.refused(Odd(), {"x": torch.randn(3, 4)}),
                         "no operator of graphpipe does: PReLU (2), roll (2)")

    def test_a_result_across_samples(self):
        class Across(nn.Module):
            def forward(self, x):
                return x - x.mean(dim=0, keepdim=True)
        self.assertEqual(self.refused(Across(), {"x": torch.randn(3, 4)}),
                         "no operator of graphpipe does: an operation across samples "
                         "(dimension 0) (1)")

    def test_inputs_of_other_names_and_numbers(self):
        self.assertEqual(self.refused(nn.Linear(2, 2), {"x": torch.randn(3, 2)}),
                         "inputs are x, and forward() takes input")
        self.assertIn("found [1]", self.refused(nn.Linear(2, 2), {"input": torch.randn(1, 2)}))
        self.assertIn("expected one number", self.refused(nn.Linear(2, 2),
                                                          {"input": torch.randn(3, 2)}, loss="own"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])

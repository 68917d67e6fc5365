#!/usr/bin/env python3
"""Trains a small model with checkpoints, reads them with nothing of ours, and resumes.

usage: read_checkpoints.py GRAPHPIPE EXAMPLES

The reader follows the public safetensors form and the index of sharded models; where Python has PyTorch and the safetensors package, it
is held against theirs, and says so where it has not.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile

BYTES = {"F32": 4, "F64": 8, "I64": 8, "BOOL": 1}


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}, every rule of the form held."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0, f"{path}: the values are not aligned"
    header = json.loads(data[8:8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}, path
    values, at, tensors = data[8 + length:], 0, {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        elements = 1
        for extent in entry["shape"]:
            elements *= extent
        assert begin == at and end - begin == elements * BYTES[entry["dtype"]], f"{path}: {name}"
        tensors[name] = (entry["dtype"], entry["shape"], values[begin:end])
        at = end
    assert at == len(values), f"{path}: bytes that belong to nothing"
    return tensors


def read_sharded(folder):
    """The weights, as tools find those of a model in several files."""
    with open(os.path.join(folder, "model.safetensors.index.json")) as file:
        index = json.load(file)["weight_map"]
    shards = {name: read_safetensors(os.path.join(folder, name)) for name in set(index.values())}
    return {name: shards[shard][name] for name, shard in index.items()}


def train(graphpipe, examples, *arguments):
    done = subprocess.run([graphpipe, "train", os.path.join(examples, "two-tower.plan.json"), "--data",
                           os.path.join(examples, "two-tower.data"), "--json", *arguments],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [(line["iteration"], line["loss"]) for line in lines if "iteration" in line], done.stderr


def compare_with_torch(folder, weights):
    try:
        import torch
    except ImportError:
        print("skipped: this Python has no PyTorch")
        return
    dtypes = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}
    state = {name: torch.frombuffer(bytearray(values), dtype=dtypes[dtype]).reshape(shape)
             for name, (dtype, shape, values) in weights.items()}
    linear = torch.nn.Linear(state["head.fc1.weight"].shape[1], state["head.fc1.weight"].shape[0])
    linear.load_state_dict({"weight": state["head.fc1.weight"], "bias": state["head.fc1.bias"]})
    try:
        from safetensors.torch import load_file
    except ImportError:
        print("skipped: this Python has no safetensors package")
        return
    for name in sorted(os.listdir(folder)):
        if name.startswith("model-"):
            assert all(torch.equal(state[key], values) for key, values in load_file(os.path.join(folder, name)).items())


def main():
    graphpipe, examples = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        saved, weights = os.path.join(work, "K"), os.path.join(work, "weights.safetensors")
        common = ["--optimizer", "adam", "--checkpoint-dir", saved]
        train(graphpipe, examples, *common, "--iterations", "4", "--checkpoint-every", "3", "--save-weights", weights)
        assert sorted(os.listdir(saved)) == ["iteration-000000000003", "iteration-000000000004"], os.listdir(saved)
        newest = os.path.join(saved, "iteration-000000000004")
        found = read_sharded(newest)
        assert found == read_safetensors(weights)
        with open(os.path.join(newest, "manifest.json")) as file:
            manifest = json.load(file)
        assert (manifest["iteration"], manifest["mini_batch"], manifest["ranks"]) == (4, 16, 4)
        moments = {}
        for entry in manifest["files"]:
            if entry["part"] == "optimizer":
                moments.update(read_safetensors(os.path.join(newest, entry["name"])))
        assert set(moments) == {f"{name}.{kind}" for name in found for kind in ("exp_avg", "exp_avg_sq", "step")}
        assert all(values == struct.pack("<q", 4) for name, (_, _, values) in moments.items() if name.endswith(".step"))
        compare_with_torch(newest, found)

        again, said = train(graphpipe, examples, *common, "--iterations", "6", "--resume", "--lr", "0.05")
        assert [iteration for iteration, _ in again] == [4, 5], again
        assert "goes on with --lr 0.05, the checkpoint was made with 0.1" in said, said


if __name__ == "__main__":
    main()

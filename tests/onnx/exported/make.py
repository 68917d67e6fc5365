#!/usr/bin/env python3
"""Writes the models of this folder: small networks of the families that people export, by
PyTorch's own exporter, each with inputs, the outputs that PyTorch computes, and the gradients of
a loss. Run where PyTorch 1.13 is (Debian: python3-torch); the files are checked in, so that
tests need no PyTorch.

  NAME.onnx                the model, its samples' dimension symbolic
  NAME.safetensors         "input.X", "output", "label", "loss", "gradient.WEIGHT"
"""
import json
import math
import pathlib
import struct

import torch
from torch import nn
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent


class Cnn(nn.Module):
    """Convolutions with batch norm, a residual block, depthwise and grouped ones, squeeze and excite."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.a = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.b = nn.Conv2d(8, 8, 1)
        self.squeeze = nn.Linear(8, 4)
        self.excite = nn.Linear(4, 8)
        self.head = nn.Linear(8 * 4, 5)

    def forward(self, x):
        x = self.pool(self.stem(x))
        y = F.silu(self.b(F.hardswish(self.a(x))))
        s = torch.sigmoid(self.excite(F.leaky_relu(self.squeeze(y.mean((2, 3))))))
        x = F.relu(x + y * s.view(s.size(0), -1, 1, 1))
        x = F.adaptive_avg_pool2d(x, 2)
        return self.head(torch.flatten(x, 1))


class Bert(nn.Module):
    """Token and position embeddings, layer norms, attention with heads, GELU."""

    def __init__(self, width=16, heads=2, length=6, words=20):
        super().__init__()
        self.heads, self.width = heads, width
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(length + 2, width)
        self.register_buffer("ids", torch.arange(length + 2).unsqueeze(0))
        self.norm = nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.norm1 = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 32), nn.Linear(32, width)
        self.norm2 = nn.LayerNorm(width)
        self.pooler, self.head = nn.Linear(width, width), nn.Linear(width, 3)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, tokens):
        length = tokens.size(1)
        x = self.norm(self.words(tokens) + self.places(self.ids[:, :length]))
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        p = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)), -1)
        y = (p @ v).permute(0, 2, 1, 3).contiguous()
        y = y.view(y.size(0), y.size(1), self.width)
        x = self.norm1(x + self.o(y))
        x = self.norm2(x + self.down(F.gelu(self.up(x))))
        return self.head(torch.tanh(self.pooler(x[:, 0])))


class Gpt(nn.Module):
    """One product for queries, keys and values, a causal mask, and the embedding's own weight at the end."""

    def __init__(self, width=16, heads=2, length=8, words=12):
        super().__init__()
        self.heads = heads
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, tokens):
        b, t = tokens.size()
        x = self.words(tokens) + self.places(torch.arange(0, t).unsqueeze(0))
        y = self.norm1(x)
        q, k, v = self.qkv(y).split(y.size(2), dim=2)
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in (q, k, v))
        a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        a = a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        y = (F.softmax(a, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, -1)
        x = x + self.proj(y)
        y = self.norm2(x)
        x = x + self.down(0.5 * self.up(y) * (1 + torch.tanh(0.79788456 * (self.up(y) + 0.044715 * self.up(y) ** 3))))
        return F.linear(self.norm3(x), self.words.weight)


class Lstm(nn.Module):
    """Sequences first (samples on axis 1), two directions, two layers."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, num_layers=2, bidirectional=True)
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        y, _ = self.lstm(x)
        return self.head(y[-1])


class Encoder(nn.Module):
    """PyTorch's own encoder layer, which folds heads into the samples' axis."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        y, _ = self.attention(x, x, x)
        return self.head(self.norm(x + y).mean(0))


def safetensors(tensors):
    codes = {torch.float32: "F32", torch.int64: "I64"}
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": codes[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def write(name, model, x, samples_axis, labels, opset, folded=False):
    torch.manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    # Gradients by evaluation's batch norms and without dropout, as the file is exported.
    model.eval()
    output = model(x)
    loss = F.cross_entropy(output.reshape(-1, output.size(-1)), labels.reshape(-1))
    loss.backward()
    dynamic = {"x": {samples_axis: "batch"}}
    torch.onnx.export(model, x, HERE / f"{name}.onnx", input_names=["x"], output_names=["y"],
                      dynamic_axes={**dynamic, "y": {0: "batch"}}, opset_version=opset,
                      training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=folded)
    tensors = {"input.x": x, "output": output, "label": labels, "loss": loss}
    for parameter_name, parameter in model.named_parameters():
        tensors["gradient." + parameter_name] = parameter.grad
    (HERE / f"{name}.safetensors").write_bytes(safetensors(tensors))


def main():
    torch.manual_seed(0)
    classes = torch.randint(3, (4,))
    write("cnn", Cnn(), torch.randn(4, 3, 16, 16), 0, torch.randint(5, (4,)), 11)
    write("bert", Bert(), torch.randint(20, (4, 6)), 0, classes, 14)
    write("gpt", Gpt(), torch.randint(12, (3, 5)), 0, torch.randint(12, (3, 5)), 13)
    write("lstm", Lstm(), torch.randn(5, 4, 4), 1, classes, 14, folded=True)
    write("encoder", Encoder(), torch.randn(5, 4, 8), 1, classes, 14, folded=True)


main()

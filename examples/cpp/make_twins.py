"""Writes twins.onnx, the model of train_onnx.cc, where PyTorch is."""
import pathlib

import torch
from torch import nn


class Twins(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(width, 24), nn.Tanh(), nn.Linear(24, 12))
        self.right = nn.Sequential(nn.Linear(width, 24), nn.Tanh(), nn.Linear(24, 12))
        self.head = nn.Linear(12, 2)

    def forward(self, left, right):
        return self.head(self.left(left) * self.right(right))


torch.manual_seed(1)
torch.onnx.export(Twins(), (torch.randn(2, 16), torch.randn(2, 16)),
                  pathlib.Path(__file__).with_name("twins.onnx"), opset_version=13,
                  input_names=["left", "right"], output_names=["scores"],
                  dynamic_axes={name: {0: "batch"} for name in ("left", "right", "scores")})

#!/usr/bin/env python3
"""PyTorch's own pipeline (torch.distributed.pipeline.sync.Pipe, after torchgpipe) on CPU
cores: the chain of run.py, whole and in two parts. Wants Debian's python3-torch.

    /usr/bin/python3 bench/runtime/torch_pipe.py     # prints JSON: seconds an iteration
"""
import json
import os
import time

import torch
from torch import nn
from torch.distributed.pipeline.sync import Pipe

LAYERS, SEQUENCE, HIDDEN, HEADS, FFN = 8, 64, 256, 4, 1024
MINI_BATCH, MICRO_BATCH, ITERATIONS = 64, 4, 6


class Head(nn.Module):
    """The mean over positions, and a linear to 16 numbers."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(HIDDEN, 16)

    def forward(self, x):
        return self.linear(x.mean(1))


def layers():
    torch.manual_seed(1)
    return [nn.TransformerEncoderLayer(HIDDEN, HEADS, FFN, dropout=0, activation="gelu",
                                       batch_first=True) for _ in range(LAYERS)]


def train(run, parameters):
    """The median iteration: the first fills caches."""
    optimizer = torch.optim.SGD(parameters, lr=0.001)
    x = torch.randn(MINI_BATCH, SEQUENCE, HIDDEN)
    target = torch.randn(MINI_BATCH, 16)
    seconds = []
    for _ in range(ITERATIONS):
        start = time.monotonic()
        optimizer.zero_grad()
        run(x, target)
        optimizer.step()
        seconds.append(time.monotonic() - start)
    return sorted(seconds[1:])[(ITERATIONS - 1) // 2]


def whole():
    model = nn.Sequential(*layers(), Head())

    def run(x, target):
        for lo in range(0, MINI_BATCH, MICRO_BATCH):
            y = model(x[lo:lo + MICRO_BATCH])
            loss = nn.functional.mse_loss(y, target[lo:lo + MICRO_BATCH])
            (loss * MICRO_BATCH / MINI_BATCH).backward()

    return train(run, model.parameters())


def piped():
    parts = layers()
    half = LAYERS // 2
    model = Pipe(nn.Sequential(nn.Sequential(*parts[:half]), nn.Sequential(*parts[half:], Head())),
                 chunks=MINI_BATCH // MICRO_BATCH, checkpoint="never")
    assert len(model.partitions) == 2, model.partitions

    def run(x, target):
        nn.functional.mse_loss(model(x).local_value(), target).backward()

    return train(run, model.parameters())


def main():
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29511")
    torch.distributed.rpc.init_rpc("worker", rank=0, world_size=1)
    result = {"torch": torch.__version__, "whole_s": whole(), "piped_s": piped()}
    torch.distributed.rpc.shutdown()
    print(json.dumps(result))


if __name__ == "__main__":
    main()

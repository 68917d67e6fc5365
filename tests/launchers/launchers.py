#!/usr/bin/env python3
"""Processes with a launcher's variables, started in a random order and up to 3 s apart, train as
one process that starts all ranks itself: the same losses, to the last digit.

    launchers.py GRAPHPIPE [SEED]
"""
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

RANKS = 3
MOST_DELAY_S = 3
# Of launchers that may have started this test.
FOREIGN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "PMIX_RANK",
           "GRAPHPIPE_TOKEN")
PREFIXES = ("OMPI_", "PMI_", "SLURM_", "TORCHELASTIC_")


def clean_environment():
    return {name: value for name, value in os.environ.items()
            if name not in FOREIGN and not name.startswith(PREFIXES)}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def losses(text):
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert lines and lines[-1].get("done"), text
    return [line["loss"] for line in lines if "iteration" in line]


class Knocker:
    """A stranger: connects to rank 0's port from the start, and says what an attacker might."""

    def __init__(self, port):
        self.port = port
        self.connections = []

    def knock(self):
        try:
            self.connections.append(socket.create_connection(("127.0.0.1", self.port), 0.1))
            self.connections[-1].send(b"\0" * 4096)
        except OSError:
            pass


def start(program, folder, rank, variables):
    command = [program, "train", "plan.json", "--data", "synthetic", "--iterations", "4", "--json",
               "--transport", "gloo", "--save-weights", "launched.safetensors"]
    return subprocess.Popen(command, cwd=folder, env={**clean_environment(), **variables(rank)},
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def launch(program, folder, variables, order, delays, knocker=None):
    """[rank]: (exit status, standard output, standard error)."""
    processes = {}
    begin = time.monotonic()
    due = dict(zip(order, sorted(delays)))
    while len(processes) < RANKS or any(p.poll() is None for p in processes.values()):
        now = time.monotonic() - begin
        for rank in [r for r in order if r not in processes and due[r] <= now]:
            processes[rank] = start(program, folder, rank, variables)
        if knocker and len(knocker.connections) < 3:
            knocker.knock()
        if now > 120:
            for process in processes.values():
                process.kill()
        time.sleep(0.05)
    outcome = []
    for rank in range(RANKS):
        out, error = processes[rank].communicate()
        outcome.append((processes[rank].returncode, out, error))
    return outcome


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    draw = random.Random(seed)
    print("seed", seed)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "plan", "digits:hidden=16", "--cluster", f"local:{RANKS}",
                        "--mini-batch", "32", "--micro-batch", "8", "--planner", "gpipe",
                        "--options", "none", "-o", "plan.json"],
                       cwd=folder, env=clean_environment(), check=True, capture_output=True)
        local = subprocess.run([program, "train", "plan.json", "--data", "synthetic",
                                "--iterations", "4", "--json", "--save-weights", "w.safetensors"],
                               cwd=folder, env=clean_environment(), check=True, capture_output=True,
                               text=True)
        expected = losses(local.stdout)
        assert len(expected) == 4, local.stdout

        # torchrun's, in a random order and with delays, and a stranger at the door.
        port = free_port()
        torchrun = lambda rank: {"RANK": str(rank), "WORLD_SIZE": str(RANKS),
                                 "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                                 "MASTER_PORT": str(port), "GRAPHPIPE_TOKEN": "of the test"}
        order = draw.sample(range(RANKS), RANKS)
        delays = [0] + [draw.uniform(0, MOST_DELAY_S) for _ in range(RANKS - 1)]
        knocker = Knocker(port)
        outcome = launch(program, folder, torchrun, order, delays, knocker)
        for rank, (status, out, error) in enumerate(outcome):
            assert status == 0, (rank, status, error)
            assert f"rank {rank} of {RANKS}, by torchrun (RANK={rank} WORLD_SIZE={RANKS})" in error
            assert rank == 0 or out == "", out
        assert knocker.connections, "the stranger never got through to rank 0's port"
        assert losses(outcome[0][1]) == expected, (losses(outcome[0][1]), expected)
        weights = [(pathlib.Path(folder) / name).read_bytes()
                   for name in ("w.safetensors", "launched.safetensors")]
        assert weights[0] == weights[1], "the weights differ"

        # A rank with another token gets nowhere, and says why.
        port = free_port()
        stranger = lambda rank: {**torchrun(rank), "MASTER_PORT": str(port),
                                 "GRAPHPIPE_TOKEN": "another" if rank == 1 else "of the test"}
        command = [program, "train", "plan.json", "--data", "synthetic", "--iterations", "4",
                   "--timeout", "6"]
        pair = [subprocess.Popen(command, cwd=folder, env={**clean_environment(), **stranger(rank)},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True) for rank in (0, 1)]
        errors = [process.communicate()[1] for process in pair]
        assert [process.returncode for process in pair] == [3, 3], errors
        assert "this rank has another token" in errors[1], errors[1]

        # Too few processes for the plan are refused by each of them.
        few = subprocess.run(command, cwd=folder, env={**clean_environment(), **torchrun(0),
                                                       "WORLD_SIZE": "2"},
                             capture_output=True, text=True)
        assert few.returncode == 2, few.stderr
        assert "the plan has 3 ranks, and torchrun started 2 processes" in few.stderr, few.stderr


if __name__ == "__main__":
    main()

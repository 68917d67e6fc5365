#!/usr/bin/env python3
"""`train --elastic`, of whose three ranks one is killed: it goes on with two from the last
checkpoint, with the losses of a run that is resumed from there by the same plan, and with three
again from the next one.

    elastic.py GRAPHPIPE
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

RANKS = 3
EVERY = 250  # iterations between checkpoints
ALL = 1500


def plan(program, folder, ranks):
    name = f"plan{ranks}.json"
    subprocess.run([program, "plan", "digits:hidden=16", "--cluster", f"local:{ranks}",
                    "--mini-batch", "32", "--micro-batch", "8", "--planner", "gpipe",
                    "--options", "none", "-o", name], cwd=folder, check=True, capture_output=True)
    return name


def train(program, plan_name, checkpoints, iterations, *more):
    return [program, "train", plan_name, "--data", "synthetic", "--iterations", str(iterations),
            "--json", "--checkpoint-dir", checkpoints, "--checkpoint-every", str(EVERY), "--keep",
            "0", "--optimizer", "adam", "--lr", "0.001", *more]


def worker_of(parent, rank):
    for child in pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if words[-3:-1] == [b"--rank", str(rank).encode()]:
            return int(child)
    raise AssertionError(f"no process of rank {rank}")


def run_and_kill(program, folder):
    process = subprocess.Popen(train(program, plan(program, folder, RANKS), "k", ALL, "--elastic"),
                               cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines, killed = [], False
    for text in process.stdout:
        lines.append(json.loads(text))
        if not killed and lines[-1].get("iteration", 0) >= EVERY + 50:
            os.kill(worker_of(process.pid, 1), signal.SIGKILL)
            killed = True
    error = process.stderr.read()
    assert process.wait() == 0, error
    assert killed
    return lines, error


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        lines, error = run_and_kill(program, folder)
        at = [i for i, line in enumerate(lines) if "restart" in line]
        restarts = [lines[i]["restart"] for i in at]
        assert [restart["ranks"] for restart in restarts] == [RANKS - 1, RANKS], restarts
        assert "rank 1 on" in restarts[0]["cause"] and "killed by signal 9" in restarts[0]["cause"]
        assert error.count("killed by signal 9") == 1, error
        assert lines[-1]["done"] and lines[-1]["iterations"] == ALL, lines[-1]
        assert lines[-1]["ranks"] == RANKS, lines[-1]

        # Each part begins where its checkpoint ended, and all iterations are there.
        saved = [int(restart["checkpoint"].rsplit("-", 1)[1]) for restart in restarts]
        assert saved[1] >= saved[0] + EVERY, saved
        parts = [lines[:at[0]], lines[at[0] + 1:at[1]], lines[at[1] + 1:]]
        losses = [{line["iteration"]: line["loss"] for line in part if "iteration" in line}
                  for part in parts]
        for part, begin in zip(losses, [0, *saved]):
            assert list(part) == list(range(begin, begin + len(part)))
        assert max(losses[1]) + 1 >= saved[1] and max(losses[2]) == ALL - 1

        # A run that is resumed from the same checkpoint, by the plan for as many ranks.
        for part, ranks, begin in ((losses[1], RANKS - 1, saved[0]), (losses[2], RANKS, saved[1])):
            shutil.rmtree(pathlib.Path(folder) / "again", ignore_errors=True)
            name = f"iteration-{begin:012}"
            shutil.copytree(pathlib.Path(folder) / "k" / name, pathlib.Path(folder) / "again" / name)
            end = begin + min(40, len(part))
            resumed = subprocess.run(train(program, plan(program, folder, ranks), "again", end,
                                           "--resume"),
                                     cwd=folder, capture_output=True, text=True, check=False)
            assert resumed.returncode == 0, resumed.stderr
            for text in resumed.stdout.splitlines():
                line = json.loads(text)
                if "iteration" in line:
                    expected = part[line["iteration"]]
                    assert abs(line["loss"] - expected) <= 1e-5 * abs(expected), (line, expected)
        print("restarts at", saved, "of", ALL)


if __name__ == "__main__":
    main()

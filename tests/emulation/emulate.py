#!/usr/bin/env python3
"""`train PLAN --emulate` runs a plan for a cluster that is not there: its programs, its memory as
verified, its time as simulated (compared as figures of the run, whose tasks sleep), and refuses
what only training has.

    emulate.py GRAPHPIPE
"""
import json
import pathlib
import subprocess
import sys
import tempfile

PROBLEM = ("two-branch", "--cluster", "summit:4", "--mini-batch", "16", "--micro-batch", "4",
           "--options", "none", "--all-devices")


class Program:
    def __init__(self, path, folder):
        self.path = path
        self.folder = folder

    def run(self, *words, status=0):
        done = subprocess.run([self.path, *map(str, words)], cwd=self.folder, capture_output=True,
                              text=True, check=False)
        assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        return done

    def emulate(self, *words):
        """The lines of a run, parsed."""
        return [json.loads(line) for line in
                self.run("train", *words, "--emulate", "--json").stdout.splitlines()]


def check_run(lines, simulated, ranks_as):
    *iterations, done = lines
    assert [line["iteration"] for line in iterations] == [0, 1], lines
    assert done["done"] and done["ranks"] == 4 and done["iterations"] == 2, done
    assert done["predicted_iteration_s"] == simulated["iteration_s"], (done, simulated)
    emulation = done["emulation"]
    assert emulation["ranks_as"] == ranks_as, emulation
    assert emulation["predicted_bubble_fraction"] == simulated["bubble_fraction"]
    # A run may be late, and never early: tasks and transfers take at least their time.
    assert done["measured_iteration_s"] >= 0.999 * simulated["iteration_s"], done
    assert emulation["stretch"] * emulation["shortest_task_s"] >= 0.02 * 0.999, emulation
    for stage in done["stages"]:
        assert stage["measured_peak_bytes"] == stage["predicted_peak_bytes"] > 0, stage
    assert sum(stage["bytes_sent"] for stage in done["stages"]) > 0, done


def main():
    with tempfile.TemporaryDirectory() as folder:
        program = Program(str(pathlib.Path(sys.argv[1]).resolve()), folder)
        program.run("plan", *PROBLEM, "-o", "plan.json")
        simulated = json.loads(program.run("simulate", "plan.json", "--json").stdout)
        check_run(program.emulate("plan.json", "--iterations", 2), simulated, "threads")
        check_run(program.emulate("plan.json", "--iterations", 2, "--transport", "gloo"),
                  simulated, "processes over Gloo")

        text = program.run("train", "plan.json", "--emulate", "--trace", "trace.json")
        assert "4 ranks as threads, 1 iteration; all times stretched" in text.stdout, text.stdout
        assert "stretched" in text.stderr, text.stderr
        events = json.loads((pathlib.Path(folder) / "trace.json").read_text())["traceEvents"]
        assert len({event["pid"] for event in events}) >= 8, "both runs, four ranks each"

        # What only training has is refused, by the name of the flag.
        for flag in (("--data", "synthetic"), ("--epochs", "1"), ("--save-weights", "w.safetensors"),
                     ("--elastic",), ("--calibrate", "p.json")):
            refused = program.run("train", "plan.json", "--emulate", *flag, status=2)
            assert flag[0] in refused.stderr, refused.stderr

        # An asynchronous plan is one stream, long enough to be steady.
        program.run("plan", *PROBLEM, "--async", "--policy", "2bw", "-o", "stream.json")
        *stream, done = program.emulate("stream.json")
        assert len(stream) == 1 and done["iterations"] > 1, (stream, done)


if __name__ == "__main__":
    main()

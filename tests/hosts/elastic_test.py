#!/usr/bin/env python3
"""`train --hostfile --elastic` on four hosts (network namespaces), of which one is taken away and
given back: the run goes on with three from the last checkpoint, with the losses of a run that is
resumed from there by the same plan, and with four again at a checkpoint.

    elastic_test.py GRAPHPIPE
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import namespaces

TAKEN = 2
EVERY = 100  # iterations between checkpoints


def train(program, plan, checkpoints, *more):
    return [program, "train", plan, "--data", "synthetic", "--json", "--transport", "gloo",
            "--checkpoint-dir", checkpoints, "--checkpoint-every", str(EVERY), "--keep", "0", *more]


def run(program, folder):
    """Ends the run once it has trained with all hosts again."""
    flags = namespaces.write_hostfile(folder)
    command = train(program, "plan.json", "k", "--iterations", "100000", "--elastic", *flags)
    lines, taken, restarts = [], False, 0
    with subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        for text in process.stdout:
            lines.append(json.loads(text))
            iteration = lines[-1].get("iteration", -1)
            if not taken and iteration >= EVERY + 20:
                namespaces.take_host_away(TAKEN)
                taken = True
            if "restart" in lines[-1]:
                restarts += 1
                begin = int(lines[-1]["restart"]["checkpoint"].rsplit("-", 1)[1])
            if restarts == 1 and iteration == begin + 5:
                namespaces.add_host(TAKEN)
            if restarts == 2 and iteration == begin + 5:
                break
        process.terminate()
        error = process.communicate()[1]
    assert process.returncode == 3, error
    return lines, error


def main():
    namespaces.enter()
    program = str(pathlib.Path(sys.argv[1]).resolve())
    print(namespaces.set_up())
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "plan", "digits:hidden=16", "--cluster",
                        f"local:{namespaces.HOSTS}", "--mini-batch", "32", "--micro-batch", "8",
                        "--planner", "gpipe", "--options", "none", "-o", "plan.json"],
                       cwd=folder, check=True, capture_output=True)
        lines, error = run(program, folder)
        at = [i for i, line in enumerate(lines) if "restart" in line]
        restarts = [lines[i]["restart"] for i in at]
        assert [restart["ranks"] for restart in restarts] == [3, 4], (restarts, error)
        assert f"rank {TAKEN} on" in restarts[0]["cause"], restarts
        begin = int(restarts[0]["checkpoint"].rsplit("-", 1)[1])
        with_three = {line["iteration"]: line["loss"] for line in lines[at[0]:at[1]]
                      if "iteration" in line}
        assert min(with_three) == begin, with_three

        base = pathlib.Path(folder)
        name = f"iteration-{begin:012}"
        shutil.copytree(base / "k" / name, base / "again" / name)
        again = subprocess.run(train(program, "k/elastic-3.plan.json", "again", "--resume",
                                     "--iterations", str(begin + 20)),
                               cwd=folder, capture_output=True, text=True, check=False)
        assert again.returncode == 0, again.stderr
        for line in map(json.loads, again.stdout.splitlines()):
            if "iteration" in line:
                expected = with_three[line["iteration"]]
                assert abs(line["loss"] - expected) <= 1e-5 * abs(expected), (line, expected)
        print("three hosts from iteration", begin, "and four from",
              restarts[1]["checkpoint"].rsplit("-", 1)[1])


if __name__ == "__main__":
    main()

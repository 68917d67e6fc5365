#!/usr/bin/env python3
"""A plan whose stages have different widths, trained by four hosts (network namespaces), each of
which starts one rank by torchrun's variables, in a random order and up to 3 s apart: the losses are
those of the same ranks on one machine, all traffic goes over the one interface, and nothing listens
on another.

Then the same by `--hostfile`, with a script that enters a namespace in the place of ssh; and once
more, where a rank is killed: its host and place are told, and nothing is left.

    hosts_test.py GRAPHPIPE [SEED]
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import namespaces

MOST_DELAY_S = 3
ITERATIONS = "30"


def plan_of_widths(program, folder, widths):
    """GPipe's cut of the model into as many stages, each on so many devices."""
    made = subprocess.run([program, "plan", "digits:hidden=16", "--cluster", f"local:{len(widths)}",
                           "--mini-batch", "32", "--micro-batch", "8", "--planner", "gpipe",
                           "--options", "none", "--json"],
                          cwd=folder, check=True, capture_output=True, text=True)
    plan = json.loads(made.stdout)
    plan["cluster"] = f"local:{sum(widths)}"
    plan["devices"] = sum(widths)
    first = 0
    for stage, width in zip(plan["stages"], widths):
        stage["devices"] = list(range(first, first + width))
        first += width
    (pathlib.Path(folder) / "plan.json").write_text(json.dumps(plan))


def losses(text):
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert lines and lines[-1].get("done"), text
    return [line["loss"] for line in lines if "iteration" in line]


def train(program):
    return [program, "train", "plan.json", "--data", "synthetic", "--iterations", ITERATIONS,
            "--json", "--transport", "gloo"]


def check_listeners(host):
    """The interface's address alone; as part of an IPv6 socket it stands behind ffff."""
    octets = [int(part) for part in namespaces.address(host).split(".")]
    own = "".join(f"{octet:02X}" for octet in reversed(octets))
    for found in namespaces.listeners(host):
        assert found.endswith(own), f"host {host} listens on {found}, and not only on {own}"
    return bool(namespaces.listeners(host))


def run_on_hosts(program, folder, draw):
    variables = {"WORLD_SIZE": str(namespaces.HOSTS), "LOCAL_RANK": "0", "MASTER_PORT": "29500",
                 "MASTER_ADDR": namespaces.address(0), "GRAPHPIPE_TOKEN": "of the test",
                 "GLOO_SOCKET_IFNAME": namespaces.INTERFACE}
    order = draw.sample(range(namespaces.HOSTS), namespaces.HOSTS)
    due = dict(zip(order, [0] + sorted(draw.uniform(0, MOST_DELAY_S) for _ in order[1:])))
    processes, heard = {}, set()
    begin = time.monotonic()
    while len(processes) < len(order) or any(p.poll() is None for p in processes.values()):
        for rank in [r for r in order if r not in processes and due[r] <= time.monotonic() - begin]:
            processes[rank] = subprocess.Popen(
                namespaces.inside(rank, *train(program)), cwd=folder, text=True,
                env={**os.environ, **variables, "RANK": str(rank)}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for host in processes:
            if check_listeners(host):
                heard.add(host)
        time.sleep(0.1)
    results = [processes[rank].communicate() for rank in range(namespaces.HOSTS)]
    for rank, process in processes.items():
        assert process.returncode == 0, (rank, process.returncode, results[rank][1])
    assert heard, "nothing was seen to listen on any host"
    return losses(results[0][0])


def workers():
    """{rank: process} of all workers: this program has a process namespace of its own."""
    found = {}
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"graphpipe-worker"):
            found[int(words[words.index(b"--rank") + 1])] = int(file.parent.name)
    return found


def check_hostfile(program, folder, expected):
    flags = namespaces.write_hostfile(folder)
    done = subprocess.run([*train(program), *flags], cwd=folder, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert losses(done.stdout) == expected
    endless = [word if word != ITERATIONS else "1000000" for word in train(program)]
    with subprocess.Popen([*endless, *flags], cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as run:
        for line in run.stdout:
            if json.loads(line).get("iteration") == 5:
                os.kill(workers()[2], signal.SIGKILL)
                break
        errors = run.communicate()[1]
    assert run.returncode == 3, errors
    causes = [line for line in errors.splitlines() if "killed by signal 9" in line]
    assert len(causes) == 1 and causes[0].startswith("error: rank 2 on "), errors
    assert workers() == {}, workers()


def main():
    namespaces.enter()
    program = str(pathlib.Path(sys.argv[1]).resolve())
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    print(namespaces.set_up())
    with tempfile.TemporaryDirectory() as folder:
        for widths in [draw.choice([(3, 1), (1, 3), (1, 2, 1), (2, 1, 1)])]:
            plan_of_widths(program, folder, widths)
            here = subprocess.run(train(program), cwd=folder, capture_output=True, text=True,
                                  check=False)
            assert here.returncode == 0, here.stderr
            expected = losses(here.stdout)
            before = [namespaces.bytes_sent(host) for host in range(namespaces.HOSTS)]
            assert run_on_hosts(program, folder, draw) == expected, widths
            for host in range(namespaces.HOSTS):
                sent = namespaces.bytes_sent(host)
                # What rank 0 says to its own store the system sends over the loopback.
                if host > 0:
                    assert sent["lo"] == before[host]["lo"], f"host {host} sent over its loopback"
                assert sent[namespaces.INTERFACE] > before[host][namespaces.INTERFACE] + 1000
            check_hostfile(program, folder, expected)
            print("widths", widths, "losses", expected)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Overhead of the executor, time to the first iteration, the transports against each
other, what of the transfers is waited for, two ranks against one, the same through PyTorch's
own pipeline, and memory against the number of micro-batches. Prints six Markdown tables;
README.md beside this file has the recipe.

    bench/runtime/run.py [build/full/bin/graphpipe]
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

sys.path.insert(0, str(ROOT / "bench"))
import programs

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/full/bin/graphpipe")
MODEL = "movielens"
MINI_BATCH = 1024  # as in the demo
RUNS = 5
CHAIN = "transformer:layers=8,sequence=64,hidden=256,heads=4,ffn=1024"


def graphpipe(*words):
    return programs.graphpipe(PROGRAM, *words)


def plan(folder, ranks, micro_batch, mini_batch):
    path = f"{folder}/{ranks}-{micro_batch}-{mini_batch}.plan.json"
    graphpipe("plan", MODEL, "--cluster", f"local:{ranks}", "--mini-batch", mini_batch,
              "--micro-batch", micro_batch, "--options", "none", "--all-devices", "--optimizer", "adam",
              "--profile", f"{folder}/{ranks}.profile.json", "-o", path)
    return path


def profile(folder, ranks):
    """Costs under the load that the ranks will see: without them plans are not the demo's."""
    graphpipe("profile", MODEL, "--micro-batch", "32,64,128,256", "--ranks", ranks, "-o",
              f"{folder}/{ranks}.profile.json")


def train(path, iterations, transport="auto"):
    """The last line of a run, and the seconds until its first iteration was reported."""
    start = time.monotonic()
    process = subprocess.Popen(
        [PROGRAM, "train", path, "--data", "synthetic", "--iterations", str(iterations),
         "--lr", "0.001", "--transport", transport, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    first_s, last = None, {}
    for line in process.stdout:
        last = json.loads(line)
        if first_s is None and "loss" in last:
            first_s = time.monotonic() - start
    if process.wait() != 0:
        raise SystemExit(f"train {path} failed")
    return last, first_s


def median(values):
    return sorted(values)[len(values) // 2]


def overhead(folder):
    print("| ranks | micro-batch | CPU time outside operators | per action | first iteration after |")
    print("|---|---|---|---|---|")
    for ranks in (1, 2, 4):
        for micro_batch in (64, 256):
            path = plan(folder, ranks, micro_batch, MINI_BATCH)
            runs = [train(path, 60) for _ in range(RUNS)]
            share = median([last["executor_overhead"] for last, _ in runs])
            action = median([last["action_s"] for last, _ in runs])
            first = median([first_s for _, first_s in runs])
            print(f"| {ranks} | {micro_batch} | {100 * share:.1f} % | {1e6 * action:.1f} us | {first:.1f} s |",
                  flush=True)


def transports(folder):
    """The same plan over both, in turn: what messages through memory save."""
    print("| micro-batch | iteration: sockets, memory | CPU time outside operators | saved |")
    print("|---|---|---|---|")
    for micro_batch in (64, 256):
        path = plan(folder, 4, micro_batch, MINI_BATCH)
        runs = [(train(path, 60, "gloo")[0], train(path, 60)[0]) for _ in range(RUNS)]
        seconds = [median([run[i]["measured_iteration_s"] for run in runs]) for i in (0, 1)]
        shares = [100 * median([run[i]["executor_overhead"] for run in runs]) for i in (0, 1)]
        print(f"| {micro_batch} | {1e3 * seconds[0]:.1f}, {1e3 * seconds[1]:.1f} ms "
              f"| {shares[0]:.1f}, {shares[1]:.1f} % | {100 * (1 - seconds[1] / seconds[0]):.0f} % |",
              flush=True)


def messages(path):
    """(send, receive) of each message of the last iteration of a run, as trace events."""
    with tempfile.NamedTemporaryFile(suffix=".json") as trace:
        graphpipe("train", path, "--data", "synthetic", "--iterations", 20, "--lr", "0.001", "--json",
                  "--trace", trace.name)
        events = json.loads(pathlib.Path(trace.name).read_text())["traceEvents"]
    spans = {e["name"]: e for e in events if e["ph"] == "X"}  # unreplicated: names are unique
    return [(e, spans["recv" + name[4:]]) for name, e in spans.items() if name.startswith("send ")]


def hidden(folder):
    """What of the transfers ranks wait for: from the send's start, or from when the receiver
    asks for it if that is later, to when the receiver goes on."""
    print("| plan | messages | there when asked for | waited for a message | of the iteration |")
    print("|---|---|---|---|---|")
    plans = [(f"movielens, 4 ranks, b = {b}", plan(folder, 4, b, MINI_BATCH)) for b in (64, 256)]
    for name, path in [*plans, ("chain, 2 ranks", chain_plan(folder, 2))]:
        shares, waits, parts = [], [], []
        for _ in range(RUNS):
            pairs = messages(path)
            waited = [max(0, r["ts"] + r["dur"] - max(r["ts"], s["ts"])) for s, r in pairs]
            ends = [r["ts"] + r["dur"] for _, r in pairs]
            ranks = len({r["pid"] for _, r in pairs} | {s["pid"] for s, _ in pairs})
            shares.append(sum(r["ts"] >= s["ts"] + s["dur"] for s, r in pairs) / len(pairs))
            waits.append(sum(waited) / len(waited))
            parts.append(sum(waited) / ranks / max(ends))
        print(f"| {name} | {len(pairs)} | {100 * median(shares):.0f} % | {median(waits):.0f} us "
              f"| {100 * median(parts):.1f} % |", flush=True)


def chain_plan(folder, ranks):
    path = f"{folder}/chain-{ranks}.plan.json"
    graphpipe("plan", CHAIN, "--cluster", f"local:{ranks}", "--mini-batch", 64, "--micro-batch", 4,
              "--options", "none", "--all-devices", "-o", path)
    return path


def iteration_s(path):
    return train(path, 12)[0]["measured_iteration_s"]


def scaling(folder):
    """A balanced chain on one rank and on two, in turn; and one rank with another beside it,
    for what the cores themselves lose when both are busy."""
    one, two = chain_plan(folder, 1), chain_plan(folder, 2)
    runs = []
    for _ in range(RUNS):
        alone, piped = iteration_s(one), iteration_s(two)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            beside = list(pool.map(iteration_s, [one, one]))
        runs.append((alone, piped, sum(beside) / 2))
    alone, piped, beside = (median([run[i] for run in runs]) for i in range(3))
    speed_up = median([run[0] / run[1] for run in runs])
    print("| one rank | two ranks | speed-up | one rank with another beside it | slowdown |")
    print("|---|---|---|---|---|")
    print(f"| {1e3 * alone:.0f} ms | {1e3 * piped:.0f} ms | {speed_up:.2f}x | {1e3 * beside:.0f} ms "
          f"| {beside / alone:.2f}x |", flush=True)


def torch_pipe():
    """The same chain through PyTorch's own pipeline, where Debian's python3-torch is there."""
    script = pathlib.Path(__file__).with_name("torch_pipe.py")
    runs = []
    for _ in range(3):
        done = subprocess.run(["/usr/bin/python3", str(script)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode != 0:
            print("PyTorch's pipeline was not run (apt-get install python3-torch): "
                  f"{done.stderr.strip().splitlines()[-1]}")
            return
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    whole, piped = (median([run[key] for run in runs]) for key in ("whole_s", "piped_s"))
    print(f"| PyTorch {runs[0]['torch']}, whole | in two parts | speed-up |")
    print("|---|---|---|")
    print(f"| {1e3 * whole:.0f} ms | {1e3 * piped:.0f} ms | {whole / piped:.2f}x |", flush=True)


def memory(folder):
    """One partition, its mini-batch grown from what is in flight to 16 times that."""
    path = plan(folder, 4, 32, 4096)
    document = json.loads(pathlib.Path(path).read_text())
    ranks = [stage["devices"][0] for stage in document["stages"]]
    most_in_flight = max(stage["in_flight_samples"] for stage in document["stages"])
    print("| micro-batches | " + " | ".join(f"rank {r}: bound, measured" for r in ranks) + " |")
    print("|---|" + "---|" * len(ranks))
    for factor in (1, 2, 4, 8, 16):
        document["mini_batch"] = most_in_flight * factor
        pathlib.Path(path).write_text(json.dumps(document))
        bounds = json.loads(graphpipe("verify", path, "--json"))["ranks"]
        last, _ = train(path, 4)
        cells = [f"{bounds[rank]['peak_bytes'] / 2**20:.2f}, "
                 f"{stage['measured_peak_bytes'] / 2**20:.2f} MiB"
                 for rank, stage in zip(ranks, last["stages"])]
        print(f"| {document['mini_batch'] // 32} | " + " | ".join(cells) + " |", flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for ranks in (1, 2, 4):
            profile(folder, ranks)
        overhead(folder)
        print()
        transports(folder)
        print()
        hidden(folder)
        print()
        scaling(folder)
        print()
        torch_pipe()
        print()
        memory(folder)


if __name__ == "__main__":
    main()

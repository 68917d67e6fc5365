#!/usr/bin/env python3
"""Whether plain graphpipe is ever worse than another planner of the registry.

    bench/never_worse/run.py [--graphpipe PATH] [--results FILE] [--only TEXT] [--every N]
    bench/never_worse/run.py --tables FILE         the tables of results at hand

Every problem is one `graphpipe compare --json`: the same options, the same costs, the same
judge. Results go to FILE, a line a problem, as they come.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import time

import problems

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OURS = "graphpipe"
TIE = 0.01
BAD = 0.05
LIMIT_S = 20  # of one planner's search


def find_graphpipe(named):
    if named:
        return named
    for preset in ("full", "dev", "ci"):
        path = ROOT / "build" / preset / "bin" / "graphpipe"
        if path.exists():
            return str(path)
    sys.exit("graphpipe is not built: cmake --workflow --preset dev, or name its path")


def compare(graphpipe, arguments):
    command = [graphpipe, "compare", *arguments, "--time-limit", str(LIMIT_S), "--json"]
    start = time.monotonic()
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}\n{result.stderr}")
    return json.loads(result.stdout)["plans"], time.monotonic() - start


def row_of(problem, arguments, plans, seconds):
    row = {"family": problem.family, "arguments": arguments, "seconds": seconds, "plans": {}}
    for plan in plans:
        kept = {"status": plan["status"]}
        if plan["status"] == "ok":
            for key in ("iteration_s", "micro_batch", "depth", "bubble_fraction"):
                kept[key] = plan.get(key)
            row["lower_bound_s"] = plan["lower_bound_s"]
        row["plans"][plan["planner"]] = kept
    return row


def ratio(row):
    """Ours over the best of the others; None: nobody has a plan."""
    ours = row["plans"][OURS].get("iteration_s", math.inf)
    others = [p.get("iteration_s", math.inf) for name, p in row["plans"].items() if name != OURS]
    best = min(others)
    if math.isinf(ours) and math.isinf(best):
        return None
    return math.inf if math.isinf(ours) else ours / best


def best_other(row):
    others = {n: p["iteration_s"] for n, p in row["plans"].items() if n != OURS and "iteration_s" in p}
    return min(others, key=others.get) if others else ""


def gap(row):
    ours = row["plans"][OURS].get("iteration_s")
    return None if ours is None else ours / row["lower_bound_s"] - 1


def percent(x):
    return "no plan" if math.isinf(x) else f"{100 * x:.1f} %"


def summary_table(rows):
    print("| family | problems | nobody has a plan | wins | ties within 1 % | losses | worst loss | mean gap |")
    print("|---|---|---|---|---|---|---|---|")
    families = list(dict.fromkeys(row["family"] for row in rows))
    for family in [*families, "all"]:
        mine = [row for row in rows if family in (row["family"], "all")]
        ratios = [r for r in map(ratio, mine) if r is not None]
        wins = sum(r < 1 - TIE for r in ratios)
        losses = [r - 1 for r in ratios if r > 1 + TIE]
        gaps = [math.log1p(g) for g in map(gap, mine) if g is not None]
        mean = percent(math.expm1(sum(gaps) / len(gaps))) if gaps else "-"
        worst = percent(max(losses)) if losses else "-"
        print(f"| {family} | {len(mine)} | {len(mine) - len(ratios)} | {wins} "
              f"| {len(ratios) - wins - len(losses)} | {len(losses)} | {worst} | {mean} |")
    ratios = [r for r in map(ratio, rows) if r is not None]
    within = sum(r <= 1 + TIE for r in ratios) / len(ratios)
    print(f"\nNo loss above 1 % in {100 * within:.1f} % of the {len(ratios)} problems that have a plan; "
          f"losses above 5 %: {sum(r > 1 + BAD for r in ratios)}.")


def planners_table(rows):
    print("\n| against | wins | ties | losses | worst loss | has no plan | gave up |")
    print("|---|---|---|---|---|---|---|")
    names = list(dict.fromkeys(n for row in rows for n in row["plans"] if n != OURS))
    for name in names:
        pairs = [(r["plans"][OURS], r["plans"][name]) for r in rows if name in r["plans"]]
        ratios = [a["iteration_s"] / b["iteration_s"] for a, b in pairs
                  if a["status"] == "ok" and b["status"] == "ok"]
        lost = [r - 1 for r in ratios if r > 1 + TIE]
        only = sum(a["status"] == "ok" and b["status"] != "ok" for a, b in pairs)
        never = sum(a["status"] != "ok" and b["status"] == "ok" for a, b in pairs)
        wins = sum(r < 1 - TIE for r in ratios)
        gave_up = sum(b["status"] == "gave_up" for _, b in pairs)
        worst = "no plan" if never else percent(max(lost)) if lost else "-"
        print(f"| {name} | {wins + only} | {len(ratios) - wins - len(lost)} | {len(lost) + never} "
              f"| {worst} | {only} | {gave_up} |")


def problem_text(row):
    model, *rest = row["arguments"]
    return " ".join([pathlib.Path(model).name, *rest])


def line_of(row):
    ours = row["plans"][OURS].get("iteration_s")
    name = best_other(row)
    theirs = row["plans"][name]["iteration_s"] if name else None
    ms = lambda s: "-" if s is None else f"{1000 * s:.3f}"
    return (f"| `{problem_text(row)}` | {ms(ours)} | {ms(theirs)} ({name}) "
            f"| {percent(ratio(row) - 1) if name else '-'} | {ms(row['lower_bound_s'])} |")


def lists(rows):
    head = "| problem | ours ms | best other ms | loss | lower bound ms |\n|---|---|---|---|---|"
    losing = [row for row in rows if (ratio(row) or 0) > 1 + TIE]
    losing.sort(key=ratio, reverse=True)
    print("\nLosses above 1 %, the worst first:\n")
    print(head)
    for row in losing:
        print(line_of(row))
    print("\nThe ten loosest gaps:\n")
    print("| problem | gap | micro-batch | depth | bubble |\n|---|---|---|---|---|")
    for row in sorted((r for r in rows if gap(r) is not None), key=gap, reverse=True)[:10]:
        plan = row["plans"][OURS]
        print(f"| `{problem_text(row)}` | {percent(gap(row))} | {plan['micro_batch']} "
              f"| {plan['depth']} | {percent(plan['bubble_fraction'])} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--graphpipe")
    parser.add_argument("--results", default=str(ROOT / "build" / "never_worse" / "results.jsonl"))
    parser.add_argument("--only", default="", help="problems whose command has this text")
    parser.add_argument("--every", type=int, default=1, help="each n-th problem alone")
    parser.add_argument("--go-on", action="store_true", help="after the problems that the results have")
    parser.add_argument("--tables", help="print the tables of this file of results")
    flags = parser.parse_args()
    if flags.tables:
        rows = [json.loads(line) for line in open(flags.tables)]
    else:
        rows = run(flags)
    summary_table(rows)
    planners_table(rows)
    lists(rows)


def run(flags):
    graphpipe = find_graphpipe(flags.graphpipe)
    results = pathlib.Path(flags.results)
    results.parent.mkdir(parents=True, exist_ok=True)
    chosen = problems.all_problems(results.parent)[:: flags.every]
    rows = [json.loads(line) for line in open(results)] if flags.go_on else []
    known = [row["arguments"] for row in rows]
    with open(results, "a" if flags.go_on else "w") as out:
        for problem in chosen:
            arguments = problem.arguments(results.parent)
            if flags.only not in " ".join(arguments) or arguments in known:
                continue
            plans, seconds = compare(graphpipe, arguments)
            rows.append(row_of(problem, arguments, plans, seconds))
            out.write(json.dumps(rows[-1]) + "\n")
            out.flush()
            if os.isatty(2):
                print(f"\r{len(rows)} of {len(chosen)}", end="", file=sys.stderr)
    return rows


if __name__ == "__main__":
    main()

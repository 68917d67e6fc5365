"""PipeDream's own evaluation from its own profiles: speed over data parallelism, and bytes sent."""
import itertools
from typing import NamedTuple

import bars
from pipedream_models import IMAGES, Model, cluster_of, cut_bytes, model_of, replicas_text, sent_bytes
from study import Row, Study, cell, header, line, read_plan, save, throughput

MACHINES, GIGABITS_PER_S = (4, 8, 16), (10, 25)
PLANNERS = ("data-parallel", "pipedream", "graphpipe")


class Partition(NamedTuple):
    replicas: str
    bottleneck_s: float  # a mini-batch of the profile, in the steady state of asynchronous 1F1B
    plan: Row | None  # under synchronous 1F1B


class Case(NamedTuple):
    """Models by machines and links; the mini-batch is one of the profile for each machine."""
    model: Model
    machines: int
    gigabits_per_s: int
    cluster: str
    rows: dict[str, Row]  # of PLANNERS
    partitions: dict[str, Partition]

    def names(self) -> tuple[int, str, int]:
        return self.gigabits_per_s, self.model.name, self.machines

    def over_data_parallel(self, seconds: float) -> float:
        """Of something that takes so long for a mini-batch of the profile."""
        return self.rows["data-parallel"]["iteration_s"] / self.machines / seconds


def pipedream_evaluation(study: Study) -> None:
    if not (study.data / "pipedream").exists():
        print(f"\nPipeDream's evaluation is left out: there is no {study.data}/pipedream")
        return
    models = [model_of(study, name) for name in IMAGES]
    cases = [case_of(study, model, machines, gigabits) for gigabits in GIGABITS_PER_S for model in models
             for machines in MACHINES]
    speeds(study, cases)
    by_mini_batch(study, cases)
    traffic([case for case in cases if case.gigabits_per_s == GIGABITS_PER_S[0]])
    zoo(study)


def case_of(study: Study, model: Model, machines: int, gigabits: int) -> Case:
    cluster, mini_batch = cluster_of(study, machines, gigabits), machines * model.samples
    out = study.run(model.profile, model.graph, cluster, mini_batch, study.folder, program="pipedream_partitions")
    partitions = {}
    for text in out.splitlines():
        name, replicas, bottleneck_s, _, path = text.split("\t")
        partitions[name] = Partition(replicas, float(bottleneck_s), None if path == "-" else read_plan(path))
    rows = study.compare(model.graph, cluster, mini_batch, planners=PLANNERS)
    return Case(model, machines, gigabits, cluster, rows, partitions)


def straight(study: Study, case: Case, samples: int, *more: str) -> Row:
    """A stage a machine."""
    return study.plan(case.model.graph, case.cluster, samples, "pipedream", "--options", "none", "--all-devices",
                      *more)[1]


def speed(case: Case, row: Row, mini_batches: int) -> float | None:
    return case.over_data_parallel(row["iteration_s"] / mini_batches) if row["status"] == "ok" else None


def with_replicas(value: float | None, row: Row) -> str:
    return f"{value:.2f}x ({replicas_text(row)})" if value else row["status"].replace("_", " ")


def speeds(study: Study, cases: list[Case]) -> None:
    header("PipeDream's evaluation: speed over data parallelism (replicas of the stages)", "Gb/s", "model", "machines",
           "data parallel: images/s", "over one machine", "model parallel, not pipelined", "straight", "PipeDream",
           "graphpipe", "PipeDream, asynchronous, in the steady state", "the same, by PipeDream's formulas")
    drawn: dict[int, bars.Groups] = {gigabits: {} for gigabits in GIGABITS_PER_S}
    for case in cases:
        model, steady, own = case.model, case.partitions["paper"], case.partitions["data-parallel"]
        base_s = case.rows["data-parallel"]["iteration_s"]
        pipedream, graph = case.rows["pipedream"], case.rows["graphpipe"]
        alone = speed(case, straight(study, case, model.samples, "--micro-batch", str(model.samples)), 1)
        in_a_row = speed(case, straight(study, case, case.machines * model.samples), case.machines)
        fast, ours = speed(case, pipedream, case.machines), speed(case, graph, case.machines)
        in_time = case.over_data_parallel(steady.bottleneck_s)
        drawn[case.gigabits_per_s][f"{model.name.split('_')[0]} {case.machines}"] = {
            "straight": in_a_row, "PipeDream": fast, "graphpipe": ours, "asynchronous": in_time}
        line(*case.names(), f"{case.machines * model.images / base_s:.0f}",
             f"{case.machines * model.compute_s / base_s:.2f}x", cell(alone, "{:.2f}x"), cell(in_a_row, "{:.2f}x"),
             with_replicas(fast, pipedream), with_replicas(ours, graph), f"{in_time:.2f}x ({steady.replicas})",
             f"{own.bottleneck_s / case.partitions['code'].bottleneck_s:.2f}x")
    for gigabits, groups in drawn.items():
        save(f"pipedream_{gigabits}", bars.svg(f"over data parallelism by machines, {gigabits} Gb/s (simulated; "
                                               "asynchronous: by formula)", "speed", groups, width=1100))


def by_mini_batch(study: Study, cases: list[Case]) -> None:
    """Where synchronous data parallelism reduces seldom, and pipelines fill once, nobody is ahead."""
    times = (1, 4, 16)
    header("PipeDream's evaluation: speed over data parallelism by mini-batches of the profile a machine and update",
           "Gb/s", "model", "machines", *(f"{planner}, x {n}" for planner in PLANNERS[1:] for n in times))
    for case in cases:
        if case.machines != 8:
            continue
        rows = [study.compare(case.model.graph, case.cluster, n * case.machines * case.model.samples,
                              planners=PLANNERS) for n in times]
        line(*case.names(), *(cell(ratio(row, planner), "{:.2f}x") for planner in PLANNERS[1:] for row in rows))


def ratio(rows: dict[str, Row], planner: str) -> float | None:
    base, other = throughput(rows["data-parallel"]), throughput(rows[planner])
    return other / base if base and other else None


def traffic(cases: list[Case]) -> None:
    header("PipeDream's evaluation: MB sent for an image, and how many fewer than data parallelism sends, 10 Gb/s",
           "model", "machines", "data parallel", "PipeDream, asynchronous", "straight", "two stages that send least",
           "of these, between stages alone", "graphpipe, synchronous")
    for case in cases:
        model, base = case.model, sent_bytes(case.model, case.rows["data-parallel"], True)
        least = case.partitions["least-bytes"].plan
        sent = [fewer(sent_bytes(model, plan, True), base, plan) if plan else "-"
                for plan in (case.partitions[name].plan for name in ("paper", "straight", "least-bytes"))]
        graph = case.rows["graphpipe"]
        line(model.name, case.machines, f"{base / 1e6:.2f}", *sent,
             f"{100 * (1 - cut_bytes(least) / base):.0f} %" if least else "-",
             fewer(sent_bytes(model, graph, False), base, graph))


def fewer(sent: float, base: float, plan: Row) -> str:
    return f"{sent / 1e6:.2f}, {100 * (1 - sent / base):.0f} % ({replicas_text(plan)})"


def zoo(study: Study) -> None:
    """The same networks by the analytic model, whose small tasks are dearer: images one by one."""
    header("PipeDream's evaluation: speed over data parallelism, models of the zoo, 8 machines", "Gb/s", "model",
           "images a machine", *PLANNERS[1:])
    for gigabits, model, images in itertools.product(GIGABITS_PER_S, ("vgg16", "resnet50"), (32, 128)):
        rows = study.compare(model, cluster_of(study, 8, gigabits), 8 * images, planners=PLANNERS)
        line(gigabits, model, images, *(cell(ratio(rows, name), "{:.2f}x") +
                                        (f" ({replicas_text(rows[name])})" if rows[name]["status"] == "ok" else "")
                                        for name in PLANNERS[1:]))

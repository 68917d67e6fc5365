#include "sim/simulator.h"

#include <memory>
#include <string>

#include "base/error.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "sim/engine.h"

namespace graphpipe {

namespace {

std::string stall_message(const Engine& engine, const Schedule& lowered, const Plan& plan) {
  std::string message =
      fmt::format("the programs stall {:g} s into the iteration", engine.iteration_s());
  for (std::size_t r = 0; r < lowered.ranks.size(); ++r) {
    const int rank = static_cast<int>(r);
    if (engine.is_done(rank)) continue;
    ActionCursor cursor(lowered, plan, RankId(r));
    while (cursor.position() < engine.position(rank)) cursor.next();
    message += fmt::format("\n  rank {} waits at action {}: {}", rank, cursor.position(),
                           to_text(cursor.action(), plan));
  }
  return message;
}

Trace run(const Schedule& lowered, const Plan& plan, const Graph& graph, const Cluster& cluster,
          const CostModel& costs, SimulateOptions options, bool skip_repeats) {
  GP_CHECK(lowered.lowered, "only lowered schedules can be simulated");
  const Programs programs = compile(lowered, plan, graph, cluster, costs, options.memory);
  std::unique_ptr<Recorder> recorder;
  if (options.events) recorder = std::make_unique<Recorder>(lowered, plan, programs.clock);
  Engine engine(programs, recorder.get());
  if (!engine.run(skip_repeats)) {
    throw InternalError(stall_message(engine, lowered, plan));
  }
  Trace trace;
  trace.iteration_s = engine.iteration_s();
  trace.samples = lowered.samples;
  for (std::size_t r = 0; r < lowered.ranks.size(); ++r) {
    const int rank = static_cast<int>(r);
    trace.ranks.push_back({engine.busy_s(rank), engine.peak_memory_bytes(rank)});
  }
  if (recorder != nullptr) recorder->move_to(trace);
  return trace;
}

}  // namespace

Trace simulate(const Schedule& lowered, const Plan& plan, const Graph& graph,
               const Cluster& cluster, const CostModel& costs, SimulateOptions options) {
  return run(lowered, plan, graph, cluster, costs, options, false);
}

Trace simulate_plan(const Plan& plan, const Graph& graph, const Cluster& cluster,
                    const CostModel& costs, SimulateOptions options, bool extrapolate) {
  const Schedule lowered = lower(build_schedule(plan, graph, schedule_samples(plan)), plan, graph);
  return run(lowered, plan, graph, cluster, costs, options, extrapolate);
}

Trace simulate_samples(const Plan& plan, std::int64_t samples, const Graph& graph,
                       const Cluster& cluster, const CostModel& costs) {
  const Schedule lowered = lower(build_schedule(plan, graph, samples), plan, graph);
  return run(lowered, plan, graph, cluster, costs, {.memory = false}, /*skip_repeats=*/true);
}

SteadyState simulate_steady(const Plan& plan, const Graph& graph, const Cluster& cluster,
                            const CostModel& costs) {
  const std::int64_t samples = schedule_samples(plan);
  const Trace once = simulate_samples(plan, samples, graph, cluster, costs);
  const Trace twice = simulate_samples(plan, 2 * samples, graph, cluster, costs);
  const auto mini_batches = static_cast<double>(samples / plan.mini_batch);
  SteadyState steady;
  steady.mini_batch_s = (twice.iteration_s - once.iteration_s) / mini_batches;
  double busy_s = 0;
  for (std::size_t r = 0; r < once.ranks.size(); ++r) {
    busy_s += twice.ranks[r].busy_s - once.ranks[r].busy_s;
  }
  const double all_s = mini_batches * static_cast<double>(once.ranks.size()) * steady.mini_batch_s;
  if (all_s > 0) steady.bubble_fraction = 1 - busy_s / all_s;
  return steady;
}

}  // namespace graphpipe

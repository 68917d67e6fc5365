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
  const Programs programs = compile(lowered, plan, graph, cluster, costs);
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

}  // namespace graphpipe

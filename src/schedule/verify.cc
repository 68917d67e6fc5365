#include "schedule/verify.h"

#include <algorithm>

#include "base/error.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/shift.h"
#include "schedule/verify_passes.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kExecutedRepeats = 4;  // executed before more are tried

// Programs whose structure is sound.
struct Attempt {
  Verification verification;
  bool repeats = false;  // the state came back: what holds here holds for any repetitions
};

Attempt attempt(const Schedule& schedule, const Plan& plan, const Graph& graph,
                const Cluster& cluster, const CostModel& costs) {
  const VerifyContext context(schedule, plan, graph);
  FaultList faults;
  Attempt result;
  verify_tasks(context, faults);
  const bool values_repeat = verify_values(context, faults);
  verify_messages(context, faults);
  verify_updates(context, faults);
  // Where a message or a reduction has no other end, that is the fault, not the wait for it.
  if (!faults.has("V1") && !faults.has("V2") && !faults.has("V4") && !faults.has("V8")) {
    const WaitResult waits = verify_waits(context, faults);
    result.repeats = values_repeat && waits.repeats;
    result.verification.steps = waits.steps;
  }
  if (!faults.has("V4") && !faults.has("V7")) {
    result.verification.memory = verify_memory(context, cluster, costs, faults);
  }
  result.verification.faults = faults.sorted();
  return result;
}

// "P2: the stage ..." at "plan: /stages/3" is a fault of rule P2 there.
Fault fault_of(const InputError& error) {
  const std::size_t colon = error.message().find(": ");
  GP_CHECK(colon != std::string::npos, "a broken rule without its number: {}", error.message());
  return {error.message().substr(0, colon), error.where(), error.message().substr(colon + 2)};
}

}  // namespace

// Few repetitions stand for all where the state comes back. Where something is wrong all are
// executed, so that faults name places of the whole schedule.
Verification verify(const Schedule& lowered, const Plan& plan, const Graph& graph,
                    const Cluster& cluster, const CostModel& costs) {
  FaultList structure;
  verify_structure(VerifyContext(lowered, plan, graph), structure);
  if (!structure.empty()) return {.faults = structure.sorted()};
  for (std::int64_t repeats = kExecutedRepeats; repeats < lowered.repeats; repeats *= 2) {
    const Schedule shorter = with_repeats(lowered, plan, repeats);
    Attempt tried = attempt(shorter, plan, graph, cluster, costs);
    if (!tried.verification.ok()) break;
    if (tried.repeats) return std::move(tried.verification);
  }
  return attempt(lowered, plan, graph, cluster, costs).verification;
}

Verification verify_plan(const Plan& plan, const Graph& graph, const Cluster& cluster,
                         const CostModel& costs) {
  Verification result;
  try {
    validate(plan, graph, cluster, "plan");
    const Schedule schedule = build_schedule(plan, graph, schedule_samples(plan));
    const std::int64_t few = std::min(schedule.repeats, kExecutedRepeats);
    validate(with_repeats(schedule, plan, few), plan, graph, "schedule");
    result = verify(lower(schedule, plan, graph), plan, graph, cluster, costs);
    const Schedule forward = build_forward_schedule(plan, graph, schedule_samples(plan));
    const Verification evaluation =
        verify(lower(forward, plan, graph), plan, graph, cluster, costs);
    for (Fault fault : evaluation.faults) {
      fault.where = "evaluation, " + fault.where;
      result.faults.push_back(std::move(fault));
    }
    result.steps += evaluation.steps;
  } catch (const InputError& error) {
    result.faults.push_back(fault_of(error));
  }
  return result;
}

}  // namespace graphpipe

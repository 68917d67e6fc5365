// Lowering keeps the schedule's form: prologue, period, epilogue.
//
// A rank's program is made by walking over its computes (rank_lowering.h) and depends on
// where they stand only through the samples: far from both ends of the mini-batch, the same
// computes P samples further on give the same actions, P samples further on. Near the ends they
// do not. The first repetitions may have windows that are not full yet (no wait_send), and the
// last must not post receives beyond the end of the mini-batch, or for messages of a short
// last micro-batch, which look different.
//
//   reps     0      1      2      3      4      5
//           | no   | wait | wait | wait | wait | posts |
//           | wait | +post| +post| +post| +post| end   |
//            `prologue'    `------ period -----' `epilogue'
//
// So a schedule with few repetitions is walked out in full, and with it the state of every
// channel at each repetition's start. The longest run of repetitions whose actions and states
// are the same (relative to their samples) is the steady state, on all ranks at once;
// what lies before goes to the prologue, what lies after to the epilogue. A steady repetition
// does not see an end: if it did, fewer messages would be posted ahead after it than before,
// and the states would differ. Hence the steady state goes on for any number of repetitions,
// and the repetitions that were left out are put back. Where no steady state shows, twice as
// many repetitions are walked, at last all of them.

#include "schedule/lower.h"

#include <algorithm>

#include "base/error.h"
#include "schedule/messages.h"
#include "schedule/placement.h"
#include "schedule/rank_lowering.h"
#include "schedule/shift.h"
#include "schedule/stream_updates.h"
#include "schedule/updates.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kFirstRepeats = 4;  // walked out before more are tried
constexpr std::size_t kLeastSteady = 2;    // repetitions, to call it a steady state

// A rank's walk: prologue, every repetition, epilogue.
struct Walk {
  std::vector<Action> prologue;
  std::vector<std::vector<Action>> repetitions;
  std::vector<std::vector<std::int64_t>> states;  // at each repetition's start, and after all
  std::vector<Action> epilogue;
  bool idle = false;              // in every repetition
  std::ptrdiff_t last_sends = 0;  // wait_sends at its end
};

class Lowering {
 public:
  Lowering(const Schedule& schedule, const Plan& plan, const Graph& graph)
      : schedule_(schedule), plan_(plan), graph_(graph), map_(plan, graph, schedule) {}

  std::vector<Walk> walks() {
    const std::vector<std::vector<Placement>> placed = placements(plan_);
    std::vector<Walk> result;
    for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
      result.push_back(walk(RankId(r), placed[r]));
    }
    return result;
  }

 private:
  Walk walk(RankId rank, const std::vector<Placement>& placed) {
    const RankProgram& program = schedule_.ranks[rank.index()];
    RankLowering lowering(map_, LocalValues(schedule_, plan_, graph_, rank), rank, placed);
    Walk result;
    result.idle = program.period.empty();
    lowering.start(result.prologue);
    for (const Action& a : program.prologue) lowering.lower(a, result.prologue);
    for (std::int64_t i = 0; i < schedule_.repeats; ++i) {
      const std::int64_t origin = i * schedule_.period_samples;
      result.states.push_back(lowering.state(origin));
      result.repetitions.emplace_back();
      for (const Action& a : program.period) {
        lowering.lower(shifted(a, plan_, origin), result.repetitions.back());
      }
    }
    result.states.push_back(lowering.state(schedule_.repeats * schedule_.period_samples));
    for (const Action& a : program.epilogue) lowering.lower(a, result.epilogue);
    const std::size_t before = result.epilogue.size();
    lowering.finish(result.epilogue);
    result.last_sends = static_cast<std::ptrdiff_t>(result.epilogue.size() - before);
    return result;
  }

  const Schedule& schedule_;
  const Plan& plan_;
  const Graph& graph_;
  MessageMap map_;
};

bool same_but_shifted(const std::vector<Action>& a, const std::vector<Action>& b, const Plan& plan,
                      std::int64_t samples) {
  return std::ranges::equal(
      a, b, [&](const Action& x, const Action& y) { return shifted(x, plan, samples) == y; });
}

// Repetitions [first, last) that are alike on all ranks; empty where there are none.
struct Steady {
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t size() const { return last - first; }
};

Steady steady_state(const std::vector<Walk>& walks, const Plan& plan, const Schedule& schedule) {
  const auto repeats = static_cast<std::size_t>(schedule.repeats);
  // Whether repetition i is followed by one like it, and that by the same state. Ranks whose
  // only work is at the mini-batch's end must not see it yet.
  const auto goes_on = [&](std::size_t i) {
    return std::ranges::all_of(walks, [&](const Walk& walk) {
      if (walk.idle) return walk.prologue.empty();
      return walk.states[i] == walk.states[i + 1] && walk.states[i + 1] == walk.states[i + 2] &&
             same_but_shifted(walk.repetitions[i], walk.repetitions[i + 1], plan,
                              schedule.period_samples);
    });
  };
  Steady best;
  for (std::size_t first = 0; first + kLeastSteady <= repeats;) {
    std::size_t last = first + 1;
    while (last < repeats && goes_on(last - 1)) ++last;
    if (last - first >= kLeastSteady && last - first > best.size()) best = {first, last};
    first = last;
  }
  return best;
}

void append(std::vector<Action>& to, const std::vector<Action>& actions) {
  to.insert(to.end(), actions.begin(), actions.end());
}

// Puts the walks together with the steady state as the period, as they stand.
Schedule assemble(const Schedule& schedule, const std::vector<Walk>& walks, Steady steady) {
  Schedule result = schedule;
  result.lowered = true;
  result.repeats = static_cast<std::int64_t>(steady.size());
  if (steady.size() == 0) result.period_samples = 0;
  for (std::size_t r = 0; r < walks.size(); ++r) {
    RankProgram& program = result.ranks[r];
    program = {.device = program.device, .prologue = walks[r].prologue};
    const auto& repetitions = walks[r].repetitions;
    for (std::size_t i = 0; i < repetitions.size(); ++i) {
      if (steady.size() == 0 || i < steady.first) append(program.prologue, repetitions[i]);
      if (steady.size() > 0 && i == steady.first) program.period = repetitions[i];
      if (steady.size() > 0 && i >= steady.last) append(program.epilogue, repetitions[i]);
    }
    append(program.epilogue, walks[r].epilogue);
  }
  return result;
}

}  // namespace

Schedule lower(const Schedule& schedule, const Plan& plan, const Graph& graph) {
  GP_CHECK(!schedule.lowered, "the schedule is lowered already");
  for (std::int64_t repeats = std::min(schedule.repeats, kFirstRepeats);;
       repeats = std::min(schedule.repeats, 2 * repeats)) {
    const Schedule walked = with_repeats(schedule, plan, repeats);
    const std::vector<Walk> walks = Lowering(walked, plan, graph).walks();
    const Steady steady = steady_state(walks, plan, walked);
    if (steady.size() == 0 && repeats < schedule.repeats) continue;
    Schedule result = assemble(walked, walks, steady);
    if (steady.size() > 0) {
      result = with_repeats(result, plan, result.repeats + schedule.repeats - repeats);
    }
    if (result.training) {
      std::vector<std::ptrdiff_t> last_sends;
      for (const Walk& walk : walks) last_sends.push_back(walk.last_sends);
      is_asynchronous(plan.weights) ? add_stream_updates(result, plan, graph)
                                    : add_updates(result, last_sends, plan, graph);
    }
    return result;
  }
}

}  // namespace graphpipe

// V3, by execution without a clock: start_send and post_receive never block; wait_receive
// blocks until its send has started, wait_send until its receive is posted, wait_reduce
// until every rank of the bucket has started. What a rank waits for stays true once it is
// true, so the order in which ranks are run does not matter: either all end, or the same
// ranks are stuck.
//
// Each rank runs until it blocks or begins another repetition, the rank with the fewest
// repetitions first: ranks then stay as close together as their messages make them, and a
// periodic schedule comes back to the same state. When it has (all ranks within the period,
// at the same actions, as many repetitions from each other and with as many messages on the
// way as one repetition ago), any number of repetitions more would run as well.

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "schedule/verify_passes.h"

namespace graphpipe {
namespace {

// One end's view is (edge, direction, this rank, the other); a channel is found from both.
using ChannelKey = std::tuple<EdgeId, Direction, RankId, RankId>;  // sender, receiver

// Messages by count: V1 and V2 say that the n-th of one end is the n-th of the other.
struct ChannelCount {
  std::int64_t started = 0;
  std::int64_t posted = 0;
  std::int64_t received = 0;
  std::int64_t left = 0;
};

// Of a bucket's holders, by their places in its ranks. A stream has a sum with every step.
struct Reduction {
  explicit Reduction(const Bucket& bucket)
      : started(bucket.ranks.size(), 0), waited(bucket.ranks.size(), 0), behind(started.size()) {}
  void start(std::size_t holder) {
    if (started[holder]++ > complete || --behind > 0) return;
    ++complete;
    behind = static_cast<std::size_t>(std::ranges::count(started, complete));
  }
  std::vector<std::int64_t> started;
  std::vector<std::int64_t> waited;
  std::int64_t complete = 0;  // sums that all have started
  std::size_t behind;         // holders that have started no more
};

class Execution {
 public:
  Execution(const VerifyContext& context, FaultList& faults)
      : context_(context),
        faults_(faults),
        reductions_(context.schedule.buckets.begin(), context.schedule.buckets.end()) {
    for (std::size_t r = 0; r < context.schedule.ranks.size(); ++r) {
      cursors_.emplace_back(context.schedule, context.plan, RankId(r));
      ready_.emplace(progress(r), r);
      const bool has_period = !context.schedule.ranks[r].period.empty();
      if (has_period && lead_ == kNone && context.schedule.repeats > 0) lead_ = r;
    }
    result_.repeats = lead_ == kNone;
  }

  WaitResult run() {
    while (!ready_.empty()) {
      const std::size_t rank = ready_.begin()->second;
      ready_.erase(ready_.begin());
      run_rank(rank);
    }
    report_stuck();
    return result_;
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  // Prologue, repetitions, epilogue.
  std::int64_t progress(std::size_t rank) const {
    const ActionCursor& at = cursors_[rank];
    if (at.in_period()) return at.repetition();
    return at.done() || at.in_epilogue() ? std::numeric_limits<std::int64_t>::max() : -1;
  }

  void run_rank(std::size_t rank) {
    ActionCursor& at = cursors_[rank];
    const std::int64_t before = progress(rank);
    while (!at.done()) {
      const Action& action = at.action();
      if (!can_run(rank, action)) {
        blocked_.insert(rank);
        return;
      }
      effect(rank, action);
      ++result_.steps;
      at.next();
      if (progress(rank) != before) {
        if (rank == lead_ && at.in_period()) compare_state();
        ready_.emplace(progress(rank), rank);
        return;
      }
    }
  }

  ChannelCount& channel(std::size_t rank, const Action& action, bool sends) {
    const RankId own(rank);
    return channels_[sends ? ChannelKey{action.edge, action.direction, own, action.peer}
                           : ChannelKey{action.edge, action.direction, action.peer, own}];
  }

  bool can_run(std::size_t rank, const Action& action) {
    if (action.kind == ActionKind::kWaitReceive) {
      const ChannelCount& c = channel(rank, action, false);
      return c.started > c.received;
    }
    if (action.kind == ActionKind::kWaitSend) {
      const ChannelCount& c = channel(rank, action, true);
      return c.posted > c.left;
    }
    if (action.kind == ActionKind::kWaitReduce) {
      const Reduction& reduction = reductions_[static_cast<std::size_t>(action.bucket)];
      return reduction.complete > reduction.waited[holder(rank, action)];
    }
    return true;
  }

  void effect(std::size_t rank, const Action& action) {
    if (action.kind == ActionKind::kStartSend) {
      ++channel(rank, action, true).started;
      wake(action.peer.index());
    } else if (action.kind == ActionKind::kWaitSend) {
      ++channel(rank, action, true).left;
    } else if (action.kind == ActionKind::kPostReceive) {
      ++channel(rank, action, false).posted;
      wake(action.peer.index());
    } else if (action.kind == ActionKind::kWaitReceive) {
      ++channel(rank, action, false).received;
    } else if (action.kind == ActionKind::kStartReduce) {
      const auto b = static_cast<std::size_t>(action.bucket);
      const std::int64_t before = reductions_[b].complete;
      reductions_[b].start(holder(rank, action));
      if (reductions_[b].complete == before) return;
      for (const RankId other : context_.schedule.buckets[b].ranks) wake(other.index());
    } else if (action.kind == ActionKind::kWaitReduce) {
      ++reductions_[static_cast<std::size_t>(action.bucket)].waited[holder(rank, action)];
    }
  }

  // V8: the rank is among them.
  std::size_t holder(std::size_t rank, const Action& action) const {
    const std::vector<RankId>& ranks =
        context_.schedule.buckets[static_cast<std::size_t>(action.bucket)].ranks;
    return static_cast<std::size_t>(std::ranges::lower_bound(ranks, RankId(rank)) - ranks.begin());
  }

  // The rank looks again at what it waits for.
  void wake(std::size_t rank) {
    if (blocked_.erase(rank) > 0) ready_.emplace(progress(rank), rank);
  }

  void compare_state() {
    std::vector<std::int64_t> state;
    const std::int64_t repetition = cursors_[lead_].repetition();
    for (std::size_t r = 0; r < cursors_.size(); ++r) {
      const ActionCursor& at = cursors_[r];
      const bool idle = context_.schedule.ranks[r].period.empty();
      if (!idle && !at.in_period()) return;
      state.push_back(idle ? at.position() : at.repetition() - repetition);
      state.push_back(static_cast<std::int64_t>(at.index()));
    }
    for (const auto& [key, c] : channels_) {
      state.insert(state.end(),
                   {c.started - c.received, c.posted - c.received, c.started - c.left});
    }
    for (const Reduction& reduction : reductions_) {
      for (std::size_t h = 0; h < reduction.started.size(); ++h) {
        state.push_back(reduction.started[h] - reduction.complete);
        state.push_back(reduction.waited[h] - reduction.complete);
      }
    }
    result_.repeats = result_.repeats || state == last_state_;
    last_state_ = std::move(state);
  }

  // The rank that this stuck rank waits for.
  std::size_t waits_for(std::size_t rank) const {
    const Action& action = cursors_[rank].action();
    if (action.kind != ActionKind::kWaitReduce) return action.peer.index();
    const auto b = static_cast<std::size_t>(action.bucket);
    const std::vector<RankId>& holders = context_.schedule.buckets[b].ranks;
    const Reduction& reduction = reductions_[b];
    const auto missing = std::ranges::find(reduction.started, reduction.complete);
    return holders[static_cast<std::size_t>(missing - reduction.started.begin())].index();
  }

  std::string stuck_text(std::size_t rank) const {
    const ActionCursor& at = cursors_[rank];
    const std::size_t other = waits_for(rank);
    const std::string here = context_.place(RankId(rank), at.position(), at.action());
    if (at.action().kind == ActionKind::kWaitReceive) {
      return fmt::format("{} (until rank {} sends it)", here, other);
    }
    if (at.action().kind == ActionKind::kWaitSend) {
      return fmt::format("{} (until rank {} posts its receive)", here, other);
    }
    return fmt::format("{} (until rank {} joins)", here, other);
  }

  // Follows the waits from the first stuck rank to a cycle. A rank that has ended has done all
  // that others wait for (V1, V8), so every wait leads to another stuck rank.
  void report_stuck() {
    if (blocked_.empty()) return;
    std::vector<std::size_t> walk{*blocked_.begin()};
    while (true) {
      const std::size_t next = waits_for(walk.back());
      GP_CHECK(blocked_.contains(next), "rank {} waits for rank {}, which has ended", walk.back(),
               next);
      const auto seen = std::ranges::find(walk, next);
      if (seen != walk.end()) {
        walk.erase(walk.begin(), seen);
        break;
      }
      walk.push_back(next);
    }
    std::ranges::rotate(walk, std::ranges::min_element(walk));
    const ActionCursor& at = cursors_[walk.front()];
    std::string message = fmt::format("ranks {} wait for each other", fmt::join(walk, ", "));
    for (const std::size_t rank : walk) message += "\n  " + stuck_text(rank);
    faults_.add("V3", context_.place(RankId(walk.front()), at.position(), at.action()), message);
  }

  const VerifyContext& context_;
  FaultList& faults_;
  std::vector<ActionCursor> cursors_;                     // [rank]
  std::set<std::pair<std::int64_t, std::size_t>> ready_;  // (progress, rank)
  std::set<std::size_t> blocked_;
  std::map<ChannelKey, ChannelCount> channels_;
  std::vector<Reduction> reductions_;  // [bucket]
  std::size_t lead_ = kNone;           // whose repetitions are counted
  std::vector<std::int64_t> last_state_;
  WaitResult result_;
};

}  // namespace

WaitResult verify_waits(const VerifyContext& context, FaultList& faults) {
  return Execution(context, faults).run();
}

}  // namespace graphpipe

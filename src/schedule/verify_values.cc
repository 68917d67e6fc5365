// V4, and V7 of messages: walks over each rank's program with the values that are alive.
//
// A value is what a forward saved (by stage and micro-batch), a received message (from its
// post), or a message being sent (from its start). Each ends once: by a free, or by the wait
// for its send. Which messages a task needs, and which it may send, follows from the owner
// map: the parts of its samples that the other end computes. Parts that it computes on
// the same rank are values without a message: what the maker's forward saved is alive while a
// task that reads it has a pass to come.

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "schedule/verify_passes.h"

namespace graphpipe {
namespace {

struct SavedKey {
  StageId stage;
  std::int64_t micro_batch = 0;
  friend auto operator<=>(const SavedKey&, const SavedKey&) = default;
};

struct MessageKey {
  EdgeId edge;
  Direction direction = Direction::kForward;
  RankId peer;
  SampleRange samples;
  friend auto operator<=>(const MessageKey&, const MessageKey&) = default;
};

MessageKey key_of(const Action& a) { return {a.edge, a.direction, a.peer, a.samples}; }
SavedKey saved_key(const Action& a) { return {a.stage, a.micro_batch}; }

// Where a value came to be.
struct Birth {
  std::int64_t position = 0;
  Action action;
};

struct Saved {
  Birth birth;
  bool recomputed = false;
  bool backward_done = false;  // or its input half: the gradients of the inputs are there
  bool over = false;           // the last pass that uses it has run
};

struct Received {
  Birth birth;
  bool arrived = false;
  bool used = false;  // by the last task that needs it
};

class RankValues {
 public:
  RankValues(const VerifyContext& context, RankId rank, FaultList& faults)
      : context_(context), rank_(rank), faults_(faults) {}

  // Whether two repetitions began with the same values.
  bool run() {
    bool repeats = context_.schedule.repeats == 0;
    std::vector<std::int64_t> last;
    for (ActionCursor at(context_.schedule, context_.plan, rank_); !at.done(); at.next()) {
      if (at.in_period() && at.index() == 0) {
        std::vector<std::int64_t> now = alive(at.repetition() * context_.schedule.period_samples);
        repeats = repeats || now == last;
        last = std::move(now);
      }
      here_ = {at.position(), at.action()};
      visit(at.action());
    }
    report_left();
    return repeats || context_.schedule.ranks[rank_.index()].period.empty();
  }

 private:
  void fault(const std::string& rule, const std::string& message) {
    faults_.add(rule, place_of(here_), message);
  }

  void visit(const Action& action) {
    switch (action.kind) {
      case ActionKind::kForward:
        visit_forward(action);
        break;
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        visit_backward(action);
        break;
      case ActionKind::kBackwardWeight:
        visit_weight(action);
        break;
      case ActionKind::kRecompute:
        visit_recompute(action);
        break;
      case ActionKind::kPostReceive:
        visit_post(action);
        break;
      case ActionKind::kWaitReceive:
        visit_receive(action);
        break;
      case ActionKind::kStartSend:
        visit_send(action);
        break;
      case ActionKind::kWaitSend:
        visit_sent(action);
        break;
      case ActionKind::kFree:
        action.edge.valid() ? visit_free_message(action) : visit_free_saved(action);
        break;
      case ActionKind::kStartReduce:
      case ActionKind::kWaitReduce:
      case ActionKind::kStep:
      case ActionKind::kMakeVersion:
      case ActionKind::kDropVersion:
        break;
    }
  }

  // The messages of the direction that carry the task's samples are there; those for which
  // it is the last to need them are used.
  void use_messages(const Action& task, Direction direction, bool is_last) {
    for (const EdgeId edge : context_.incoming_edges(task.stage, direction)) {
      for (const auto& [peer, samples] : context_.parts(edge, task.stage, rank_, task.samples)) {
        const MessageKey key{edge, direction, peer, samples};
        const auto at = received_.find(key);
        if (at != received_.end() && at->second.arrived) {
          at->second.used = at->second.used || is_last;
        } else if (ended_messages_.contains(key)) {
          fault("V4", fmt::format("uses {}, which was freed before", describe(key)));
        } else {
          fault("V7", fmt::format("needs {} from rank {}, and no receive before it brings them",
                                  describe(key), peer.value));
        }
      }
    }
  }

  StageId other_end(EdgeId edge, StageId stage) const {
    const StageEdge& ends = context_.plan.edge(edge);
    return ends.from == stage ? ends.to : ends.from;
  }

  // What the task reads of other stages on this rank is alive.
  void use_made_here(const Action& task) {
    for (const EdgeId edge : context_.incoming_edges(task.stage, Direction::kForward)) {
      const StageId maker = other_end(edge, task.stage);
      for (const OwnedPart& part : context_.local_parts(edge, task.stage, rank_, task.samples)) {
        const SavedKey key{maker, part.micro_batch};
        if (saved_.contains(key)) continue;
        const bool ended = ended_saved_.contains(key);
        if (ended && context_.plan.edge(edge).kind == EdgeKind::kOrder) continue;
        const std::string made = fmt::format("{}F{}", maker.value, part.micro_batch);
        ended ? fault("V4", fmt::format("uses what {} made on this rank, which was freed", made))
              : fault("V7",
                      fmt::format("needs what {} makes on this rank, and it has not run", made));
      }
    }
  }

  // The gradients that other stages on this rank make for the task are there.
  void use_gradients_made_here(const Action& task) {
    for (const EdgeId edge : context_.incoming_edges(task.stage, Direction::kBackward)) {
      const StageId reader = other_end(edge, task.stage);
      for (const OwnedPart& part : context_.local_parts(edge, task.stage, rank_, task.samples)) {
        const SavedKey key{reader, part.micro_batch};
        const auto at = saved_.find(key);
        if (at == saved_.end() ? ended_saved_.contains(key) : at->second.backward_done) continue;
        fault("V7", fmt::format("needs the gradients of {}B{} on this rank, and it has not run",
                                reader.value, part.micro_batch));
      }
    }
  }

  // Whoever reads on this rank what the task made has run its last pass.
  void check_readers_here(const Action& freed) {
    for (const EdgeId edge : context_.edges.out[freed.stage.index()]) {
      if (context_.plan.edge(edge).kind == EdgeKind::kOrder) continue;
      const StageId reader = other_end(edge, freed.stage);
      const bool backward = context_.backward[reader.index()];
      for (const OwnedPart& part : context_.local_parts(edge, freed.stage, rank_, freed.samples)) {
        const SavedKey key{reader, part.micro_batch};
        const auto at = saved_.find(key);
        const bool is_over =
            at == saved_.end() ? ended_saved_.contains(key) : !backward || at->second.over;
        if (is_over) continue;
        fault("V4", fmt::format("is freed before {}{}{}, which reads it on this rank", reader.value,
                                backward ? 'B' : 'F', part.micro_batch));
      }
    }
  }

  void visit_forward(const Action& action) {
    use_messages(action, Direction::kForward, true);
    use_made_here(action);
    saved_.emplace(saved_key(action), Saved{here_});  // a second run is verify_tasks()'s to say
  }

  // What the task's forward saved, or a fault.
  Saved* find_saved(const Action& task) {
    const auto at = saved_.find(saved_key(task));
    if (at != saved_.end()) return &at->second;
    fault("V4", ended_saved_.contains(saved_key(task))
                    ? "uses what its forward saved, which was freed before"
                    : "runs before its forward, so nothing is saved for it");
    return nullptr;
  }

  void visit_recompute(const Action& action) {
    if (Saved* saved = find_saved(action)) saved->recomputed = true;
    use_made_here(action);
  }

  void visit_backward(const Action& action) {
    if (Saved* saved = find_saved(action)) {
      if (context_.recompute[action.stage.index()] && !saved->recomputed) {
        fault("V4", "runs before its forward has run again, so its values are not there");
      }
      saved->backward_done = true;
      saved->over = action.kind == ActionKind::kBackward;
    }
    use_messages(action, Direction::kBackward, action.kind == ActionKind::kBackward);
    use_made_here(action);
    use_gradients_made_here(action);
  }

  void visit_weight(const Action& action) {
    if (Saved* saved = find_saved(action)) {
      if (!saved->backward_done)
        fault("V4", "runs before its input half, which makes its gradients");
      saved->over = true;
    }
    use_messages(action, Direction::kBackward, true);
    use_made_here(action);
  }

  // V7: the samples are what the task of this action and one of the peer's have in common.
  void check_carried(const Action& action) {
    std::string expected;
    for (const auto& [peer, samples] :
         context_.parts(action.edge, action.stage, rank_, context_.task_samples(action))) {
      if (peer != action.peer) continue;
      if (samples == action.samples) return;
      expected += (expected.empty() ? "" : ", ") + samples_text(samples);
    }
    fault("V7", fmt::format("carries samples {}, but micro-batch {} of stage {} and the tasks of "
                            "rank {} have {} in common",
                            samples_text(action.samples), action.micro_batch, action.stage.value,
                            action.peer.value, expected.empty() ? "none" : expected));
  }

  void visit_post(const Action& action) {
    check_carried(action);
    const auto [at, is_new] = received_.emplace(key_of(action), Received{here_});
    if (!is_new) fault("V4", "is posted a second time before its first buffer is freed");
  }

  void visit_receive(const Action& action) {
    const auto at = received_.find(key_of(action));
    if (at == received_.end()) {
      fault("V4", "waits for a message whose receive is not posted");
      return;
    }
    if (at->second.arrived) fault("V4", "waits for the message a second time");
    at->second.arrived = true;
  }

  void visit_send(const Action& action) {
    check_carried(action);
    const bool forward = action.direction == Direction::kForward;
    const std::string task =
        fmt::format("{}{}{}", action.stage.value, forward ? 'F' : 'B', action.micro_batch);
    const auto saved = saved_.find(saved_key(action));
    if (saved == saved_.end() || (!forward && !saved->second.backward_done)) {
      ended_saved_.contains(saved_key(action))
          ? fault("V4", fmt::format("sends what {} made after it was freed", task))
          : fault("V7", fmt::format("sends what {} makes before it runs", task));
    }
    const auto [at, is_new] = sent_.emplace(key_of(action), here_);
    if (!is_new) fault("V4", "is sent a second time before the first has left");
  }

  void visit_sent(const Action& action) {
    if (sent_.erase(key_of(action)) == 0) fault("V4", "waits for a send that is not on its way");
  }

  void visit_free_saved(const Action& action) {
    const SavedKey key = saved_key(action);
    const auto at = saved_.find(key);
    if (at == saved_.end()) {
      fault("V4", ended_saved_.contains(key) ? "is freed a second time"
                                             : "is freed before its forward has run");
      return;
    }
    if (context_.backward[action.stage.index()] && !at->second.over) {
      fault("V4", fmt::format("is freed before {}{}{}, which needs it", action.stage.value,
                              at->second.backward_done ? 'W' : 'B', action.micro_batch));
    }
    if (action.samples != context_.task_samples(action)) {
      fault("V4",
            fmt::format("frees samples {}, where the forward saved {}",
                        samples_text(action.samples), samples_text(context_.task_samples(action))));
    }
    check_readers_here(action);
    saved_.erase(at);
    ended_saved_.insert(key);
  }

  void visit_free_message(const Action& action) {
    const MessageKey key = key_of(action);
    const auto at = received_.find(key);
    if (at == received_.end()) {
      fault("V4", ended_messages_.contains(key) ? "is freed a second time"
                                                : "is freed before its receive is posted");
      return;
    }
    if (!at->second.used) fault("V4", "is freed before the last task that needs it");
    received_.erase(at);
    ended_messages_.insert(key);
  }

  void report_left() {
    for (const auto& [key, saved] : saved_) {
      faults_.add("V4", place_of(saved.birth), "what it saves is never freed");
    }
    for (const auto& [key, received] : received_) {
      faults_.add("V4", place_of(received.birth), "its buffer is never freed");
    }
    for (const auto& [key, birth] : sent_) {
      faults_.add("V4", place_of(birth), "nothing waits for it, so its buffer never ends");
    }
  }

  std::string place_of(const Birth& birth) const {
    return context_.place(rank_, birth.position, birth.action);
  }

  std::string describe(const MessageKey& key) const {
    const StageEdge& edge = context_.plan.edge(key.edge);
    return fmt::format("{}>{} {} {}", edge.from.value, edge.to.value,
                       key.direction == Direction::kForward ? 'F' : 'B', samples_text(key.samples));
  }

  // What is alive, in samples from `origin`.
  std::vector<std::int64_t> alive(std::int64_t origin) const {
    std::vector<std::int64_t> state;
    for (const auto& [key, saved] : saved_) {
      const std::int64_t first = key.micro_batch * context_.plan.stage(key.stage).micro_batch;
      state.insert(state.end(), {0, key.stage.value, first - origin, saved.recomputed,
                                 saved.backward_done, saved.over});
    }
    const auto add = [&](const MessageKey& key, std::int64_t kind) {
      state.insert(state.end(), {kind, key.edge.value, static_cast<std::int64_t>(key.direction),
                                 key.peer.value, key.samples.lo - origin, key.samples.hi - origin});
    };
    for (const auto& [key, r] : received_) add(key, 1 + (r.arrived ? 1 : 0) + (r.used ? 2 : 0));
    for (const auto& [key, birth] : sent_) add(key, 5);
    return state;
  }

  const VerifyContext& context_;
  RankId rank_;
  FaultList& faults_;
  Birth here_;  // the action at hand
  std::map<SavedKey, Saved> saved_;
  std::map<MessageKey, Received> received_;
  std::map<MessageKey, Birth> sent_;
  std::set<SavedKey> ended_saved_;
  std::set<MessageKey> ended_messages_;
};

}  // namespace

bool verify_values(const VerifyContext& context, FaultList& faults) {
  bool repeats = true;
  for (std::size_t r = 0; r < context.schedule.ranks.size(); ++r) {
    repeats = RankValues(context, RankId(r), faults).run() && repeats;
  }
  return repeats;
}

}  // namespace graphpipe

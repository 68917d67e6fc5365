// The text form of actions and schedules.

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "schedule/drawing.h"
#include "schedule/owner_map.h"
#include "schedule/placement.h"
#include "schedule/schedule.h"

namespace graphpipe {

char compute_letter(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return 'F';
    case ActionKind::kBackward:
      return 'B';
    case ActionKind::kBackwardInput:
      return 'I';
    case ActionKind::kBackwardWeight:
      return 'W';
    case ActionKind::kRecompute:
      return 'R';
    case ActionKind::kPostReceive:
    case ActionKind::kWaitReceive:
    case ActionKind::kStartSend:
    case ActionKind::kWaitSend:
    case ActionKind::kFree:
    case ActionKind::kStartReduce:
    case ActionKind::kWaitReduce:
    case ActionKind::kStep:
    case ActionKind::kMakeVersion:
    case ActionKind::kDropVersion:
      return 0;
  }
  GP_CHECK(false, "unknown action kind {}", static_cast<int>(kind));
  return 0;
}

namespace {

std::string message_text(std::string_view verb, const Action& action, const Plan& plan) {
  if (action.edge.index() >= plan.edges.size()) {  // a fault, of which the verifier speaks
    return fmt::format("{} over edge {}", verb, action.edge.value);
  }
  const StageEdge& edge = plan.edge(action.edge);
  return fmt::format("{} {}>{} {} {}", verb, edge.from.value, edge.to.value,
                     action.direction == Direction::kForward ? 'F' : 'B',
                     samples_text(action.samples));
}

std::string reduction_text(const Action& action) {
  const char* verb = action.kind == ActionKind::kStartReduce ? "reduce" : "reduced";
  std::string text = fmt::format("{} #{}", verb, action.bucket);
  if (!action.after.valid()) {
    return action.samples.empty() ? text : text + fmt::format(" to v{}", action.micro_batch);
  }
  return text + fmt::format(" in {}B{}", action.stage.value, action.micro_batch);
}

std::string other_text(const Action& action, const Plan& plan) {
  switch (action.kind) {
    case ActionKind::kPostReceive:
      return message_text("post", action, plan);
    case ActionKind::kWaitReceive:
      return message_text("recv", action, plan);
    case ActionKind::kStartSend:
      return message_text("send", action, plan);
    case ActionKind::kWaitSend:
      return message_text("sent", action, plan);
    case ActionKind::kFree:
      if (action.edge.valid()) return message_text("free", action, plan);
      return fmt::format("free {} {}", action.stage.value, samples_text(action.samples));
    case ActionKind::kStartReduce:
    case ActionKind::kWaitReduce:
      return reduction_text(action);
    case ActionKind::kStep:
      return action.samples.empty()
                 ? fmt::format("step {}", action.stage.value)
                 : fmt::format("step {} to v{}", action.stage.value, action.micro_batch);
    case ActionKind::kMakeVersion:
      return fmt::format("keep {} v{}", action.stage.value, action.micro_batch);
    case ActionKind::kDropVersion:
      return fmt::format("drop {} v{}", action.stage.value, action.micro_batch);
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight:
    case ActionKind::kRecompute:
      break;
  }
  GP_CHECK(false, "unknown action kind {}", static_cast<int>(action.kind));
  return "";
}

std::optional<ActionKind> parse_compute_letter(char letter) {
  for (const ActionKind kind :
       {ActionKind::kForward, ActionKind::kBackward, ActionKind::kBackwardInput,
        ActionKind::kBackwardWeight, ActionKind::kRecompute}) {
    if (compute_letter(kind) == letter) return kind;
  }
  return std::nullopt;
}

// The number at the start of `text`, which loses it.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || text.starts_with('-')) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

class LineParser {
 public:
  LineParser(const Plan& plan, DeviceId device, std::string where)
      : plan_(plan), device_(device), where_(std::move(where)) {}

  Action parse(std::string_view word) const {
    std::string_view rest = word;
    const std::optional<std::int64_t> stage = take_number(rest);
    const std::optional<ActionKind> kind =
        rest.empty() ? std::nullopt : parse_compute_letter(rest.front());
    if (!rest.empty()) rest.remove_prefix(1);
    const std::optional<std::int64_t> micro_batch = take_number(rest);
    if (!stage || !kind || !micro_batch || !rest.empty()) {
      fail(word, "expected a stage, one of F B I W R, and a micro-batch, as in 0F0");
    }
    if (*stage >= static_cast<std::int64_t>(plan_.stages.size())) {
      fail(word, fmt::format("there is no stage {}; the plan has {}, counted from 0", *stage,
                             plan_.stages.size()));
    }
    Action action{.kind = *kind, .stage = StageId(static_cast<std::int32_t>(*stage))};
    const Stage& runs = plan_.stage(action.stage);
    if (*micro_batch >= micro_batch_count(runs, schedule_samples(plan_))) {
      fail(word,
           fmt::format("there is no micro-batch {}; stage {} has {}, counted from 0", *micro_batch,
                       *stage, micro_batch_count(runs, schedule_samples(plan_))));
    }
    const auto at = std::ranges::find(runs.devices, device_);
    action.replica = at == runs.devices.end() ? 0 : static_cast<int>(at - runs.devices.begin());
    action.micro_batch = *micro_batch;
    action.samples = replica_samples(runs, action.replica, *micro_batch, schedule_samples(plan_));
    return action;
  }

 private:
  [[noreturn]] void fail(std::string_view word, const std::string& what) const {
    throw InputError(where_, fmt::format("'{}': {}", word, what));
  }

  const Plan& plan_;
  DeviceId device_;
  std::string where_;
};

std::vector<std::string_view> split_words(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

}  // namespace

bool is_compute(ActionKind kind) { return compute_letter(kind) != 0; }

std::string to_text(const Action& action, const Plan& plan) {
  const char letter = compute_letter(action.kind);
  if (letter == 0) return other_text(action, plan);
  return fmt::format("{}{}{}", action.stage.value, letter, action.micro_batch);
}

std::string to_text(const Schedule& schedule, const Plan& plan) {
  std::string text;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const std::size_t begin = text.size();
    for (ActionCursor at(schedule, plan, RankId(r)); !at.done(); at.next()) {
      if (!is_compute(at.action().kind)) continue;
      if (text.size() > begin) text += ' ';
      text += to_text(at.action(), plan);
    }
    if (text.size() == begin) text += '-';
    text += '\n';
  }
  return text;
}

Schedule parse_schedule(std::string_view text, const Plan& plan, const std::string& where) {
  Schedule schedule{
      .ranks = empty_programs(plan), .samples = schedule_samples(plan), .training = false};
  std::size_t rank = 0;
  for (std::size_t line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string_view> words = split_words(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    const std::string here = fmt::format("{}:{}", where, line_number);
    if (rank == schedule.ranks.size()) {
      throw InputError(here, fmt::format("a line more than the plan has devices ({})", rank));
    }
    RankProgram& program = schedule.ranks[rank++];
    if (words.size() == 1 && words[0] == "-") continue;
    const LineParser parser(plan, program.device, here);
    for (const std::string_view word : words) {
      program.prologue.push_back(parser.parse(word));
      if (program.prologue.back().kind != ActionKind::kForward) schedule.training = true;
    }
  }
  if (rank < schedule.ranks.size()) {
    throw InputError(where, fmt::format("expected {} lines, one for each device of the plan, found "
                                        "{}; write - for a rank that has nothing to do",
                                        schedule.ranks.size(), rank));
  }
  return schedule;
}

}  // namespace graphpipe

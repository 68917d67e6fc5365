#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "report/text_report.h"

namespace graphpipe {

namespace {

// A task that is neither the shortest nor rare gets its label and a blank, up to here.
constexpr int kWidestUnit = 4;
// Tasks this much shorter than long ones may vanish, lest nothing else is seen.
constexpr double kLargestRatio = 8;
constexpr std::string_view kCut = " ~ ";
// What the first part takes of a trace that is cut.
constexpr double kFirstShare = 0.6;

bool computes(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackward ||
         kind == ActionKind::kBackwardInput || kind == ActionKind::kBackwardWeight ||
         kind == ActionKind::kRecompute;
}

char letter(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return 'F';
    case ActionKind::kBackward:
      return 'B';
    case ActionKind::kBackwardInput:
      return 'I';
    case ActionKind::kBackwardWeight:
      return 'W';
    default:
      return 'R';
  }
}

// [rank]: its stages, ascending.
std::vector<std::vector<StageId>> stages_of_ranks(const Schedule& schedule, const Plan& plan) {
  std::vector<std::vector<StageId>> stages(schedule.ranks.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const DeviceId device : plan.stages[s].devices) {
      const RankId rank = schedule.rank_of(device);
      if (rank.valid()) stages[rank.index()].push_back(StageId(s));
    }
  }
  return stages;
}

std::string rank_label(std::size_t rank, const std::vector<StageId>& stages) {
  std::string text = fmt::format("rank {} stage{} ", rank, stages.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < stages.size(); ++i) {
    text += fmt::format("{}{}", i > 0 ? "," : "", stages[i].value);
  }
  return text;
}

// Where the rank holds several stages the stage stands before the letter.
std::string task_label(const Action& action, bool with_stage) {
  const std::string label = fmt::format("{}{}", letter(action.kind), action.micro_batch);
  return with_stage ? fmt::format("{}{}", action.stage.value, label) : label;
}

double quantile(const std::vector<double>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(share * last))];
}

// Part of the time axis.
struct Panel {
  double from_s = 0;
  int columns = 0;
};

class Grid {
 public:
  Grid(const Trace& trace, const Schedule& schedule, const Plan& plan, int columns)
      : trace_(trace), rank_stages_(stages_of_ranks(schedule, plan)), width_(columns) {
    for (std::size_t r = 0; r < rank_stages_.size(); ++r) {
      labels_.push_back(rank_label(r, rank_stages_[r]));
      label_width_ = std::max(label_width_, static_cast<int>(labels_.back().size()) + 2);
    }
    choose_scale();
    choose_panels();
  }

  std::string text() {
    std::string rows;
    for (std::size_t r = 0; r < labels_.size(); ++r) {
      rows += fmt::format("{:<{}}", labels_[r], label_width_);
      for (std::size_t p = 0; p < panels_.size(); ++p) {
        if (p > 0) rows += kCut;
        rows += row(RankId(r), panels_[p]);
      }
      rows += "\n";
    }
    return axis() + rows + legend();
  }

 private:
  bool with_stage(RankId rank) const { return rank_stages_[rank.index()].size() > 1; }

  // So many characters a second that the shortest common task shows its label.
  void choose_scale() {
    std::vector<double> durations_s;
    int longest_label = 2;
    for (const TraceEvent& event : trace_.events) {
      if (!computes(event.action.kind) || event.end_s <= event.start_s) continue;
      durations_s.push_back(event.end_s - event.start_s);
      const std::string label = task_label(event.action, with_stage(event.rank));
      longest_label = std::max(longest_label, static_cast<int>(label.size()));
    }
    if (durations_s.empty()) return;
    std::sort(durations_s.begin(), durations_s.end());
    const double shortest_s =
        std::max(quantile(durations_s, 0.1), quantile(durations_s, 0.9) / kLargestRatio);
    columns_per_s_ = std::min(longest_label + 1, kWidestUnit) / shortest_s;
  }

  void choose_panels() {
    const int room = std::max(width_ - label_width_, 2 + static_cast<int>(kCut.size()));
    const double needed = trace_.iteration_s * columns_per_s_;
    if (needed < room + 0.5) {
      panels_ = {{0, static_cast<int>(std::lround(needed))}};
      return;
    }
    const int both = room - static_cast<int>(kCut.size());
    const int first = static_cast<int>(kFirstShare * both);
    const int second = both - first;
    panels_ = {{0, first}, {trace_.iteration_s - second / columns_per_s_, second}};
  }

  int column(const Panel& panel, double time_s) const {
    const double column = std::round((time_s - panel.from_s) * columns_per_s_);
    return static_cast<int>(std::clamp(column, 0.0, static_cast<double>(panel.columns)));
  }

  std::string row(RankId rank, const Panel& panel) const {
    std::string cells(static_cast<std::size_t>(panel.columns), '.');
    for (const TraceEvent& event : trace_.events) {
      if (event.rank != rank || !computes(event.action.kind)) continue;
      const int begin = column(panel, event.start_s);
      const int end = column(panel, event.end_s);
      if (begin == end) continue;
      const auto room = static_cast<std::size_t>(end - begin);
      cells.replace(static_cast<std::size_t>(begin), room, cell(event, room));
    }
    return cells;
  }

  // "B3--- ": the label, then dashes, and a blank before the next. A label that does not
  // fit is its letter: half a number would be another's.
  std::string cell(const TraceEvent& event, std::size_t room) const {
    std::string text = task_label(event.action, with_stage(event.rank));
    if (text.size() > room) text = letter(event.action.kind);
    const bool blank = text.size() < room;
    text.resize(room, '-');
    if (blank) text.back() = ' ';
    return text;
  }

  // Times at the ends of the panels.
  std::string axis() const {
    std::string line(static_cast<std::size_t>(label_width_), ' ');
    for (std::size_t p = 0; p < panels_.size(); ++p) {
      const Panel& panel = panels_[p];
      if (p > 0) line += std::string(kCut.size(), ' ');
      const std::string from = p == 0 ? "0 s" : seconds_text(panel.from_s);
      const double to_s = p + 1 == panels_.size() ? trace_.iteration_s
                                                  : panel.from_s + panel.columns / columns_per_s_;
      const std::string to = seconds_text(to_s);
      const int between = panel.columns - static_cast<int>(from.size());
      line += from + (between > static_cast<int>(to.size())
                          ? fmt::format("{:>{}}", to, between)
                          : std::string(static_cast<std::size_t>(std::max(between, 0)), ' '));
    }
    return line + "\n";
  }

  std::string legend() const {
    if (columns_per_s_ <= 0) return "";
    std::string text = fmt::format(
        "F3 is the forward of micro-batch 3, B3 its backward, a dot idle; a character is {}\n",
        seconds_text(1 / columns_per_s_));
    if (panels_.size() > 1) text += "~ stands for the time between that is not shown\n";
    return text;
  }

  const Trace& trace_;
  std::vector<std::vector<StageId>> rank_stages_;
  int width_;
  std::vector<std::string> labels_;
  int label_width_ = 0;
  double columns_per_s_ = 0;
  std::vector<Panel> panels_;
};

}  // namespace

std::string schedule_grid(const Trace& trace, const Schedule& schedule, const Plan& plan,
                          int columns) {
  return Grid(trace, schedule, plan, columns).text();
}

}  // namespace graphpipe

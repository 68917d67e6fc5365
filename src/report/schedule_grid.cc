#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "report/text_report.h"
#include "report/text_table.h"
#include "schedule/drawing.h"

namespace graphpipe {

namespace {

// What the shortest common task gets: its label and a blank where there is room, at
// least two characters.
constexpr int kWidestUnit = 4;
constexpr int kNarrowestUnit = 2;
// Tasks this much shorter than long ones may vanish, lest nothing else is seen.
constexpr double kLargestRatio = 8;
constexpr std::string_view kCut = " ~ ";
// What the first part takes of a trace that is cut.
constexpr double kFirstShare = 0.6;

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

// Ranks first to last.
struct RankRange {
  std::size_t first = 0;
  std::size_t last = 0;
};

std::string rank_label(const RankRange& ranks, const std::vector<StageId>& stages) {
  std::string text =
      ranks.first == ranks.last
          ? fmt::format("rank {} stage{} ", ranks.first, stages.size() == 1 ? "" : "s")
          : fmt::format("rank {}-{} stage{} ", ranks.first, ranks.last,
                        stages.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < stages.size(); ++i) {
    text += fmt::format("{}{}", i > 0 ? "," : "", stages[i].value);
  }
  return text;
}

// Where the rank holds several stages the stage stands before the letter.
std::string task_label(const Action& action, bool with_stage) {
  const std::string label = fmt::format("{}{}", compute_letter(action.kind), action.micro_batch);
  return with_stage ? fmt::format("{}{}", action.stage.value, label) : label;
}

// [rank]: what it computes, in order.
std::vector<std::vector<const TraceEvent*>> tasks_of_ranks(const Trace& trace, std::size_t ranks) {
  std::vector<std::vector<const TraceEvent*>> tasks(ranks);
  for (const TraceEvent& event : trace.events) {
    if (is_compute(event.action.kind)) tasks[event.rank.index()].push_back(&event);
  }
  return tasks;
}

// Ranks that do the same tasks at the same times, as replicas do, and follow each other; where
// ranks are few, each by itself.
std::vector<RankRange> like_ranks(const Trace& trace,
                                  const std::vector<std::vector<StageId>>& stages) {
  const auto tasks = tasks_of_ranks(trace, stages.size());
  const double same_s = 1e-9 * trace.iteration_s;
  const auto same_task = [&](const TraceEvent* a, const TraceEvent* b) {
    return a->action.kind == b->action.kind && a->action.stage == b->action.stage &&
           a->action.micro_batch == b->action.micro_batch &&
           std::abs(a->start_s - b->start_s) <= same_s && std::abs(a->end_s - b->end_s) <= same_s;
  };
  std::vector<RankRange> ranges;
  for (std::size_t r = 0; r < stages.size(); ++r) {
    const bool goes_on = stages.size() > kManyRows && r > 0 && stages[r] == stages[r - 1] &&
                         std::ranges::equal(tasks[r], tasks[r - 1], same_task);
    if (goes_on) {
      ranges.back().last = r;
    } else {
      ranges.push_back({r, r});
    }
  }
  return ranges;
}

double quantile(const std::vector<double>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(share * last))];
}

// Part of the time axis, in characters from its start.
struct Panel {
  int begin = 0;
  int end = 0;
  int size() const { return end - begin; }
};

class Grid {
 public:
  Grid(const Trace& trace, const Schedule& schedule, const Plan& plan, int columns, bool colours)
      : trace_(trace),
        rank_stages_(stages_of_ranks(schedule, plan)),
        rows_(like_ranks(trace, rank_stages_)),
        width_(columns),
        colours_(colours) {
    for (const RankRange& ranks : rows_) {
      labels_.push_back(rank_label(ranks, rank_stages_[ranks.first]));
      label_width_ = std::max(label_width_, static_cast<int>(labels_.back().size()) + 2);
    }
    find_durations();
    choose_panels();
  }

  std::string text() {
    std::string text = axis();
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      std::string line = fmt::format("{:<{}}", labels_[r], label_width_);
      for (std::size_t p = 0; p < panels_.size(); ++p) {
        if (p > 0) line += kCut;
        line += row(RankId(rows_[r].first), panels_[p]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text + legend();
  }

 private:
  bool with_stage(RankId rank) const { return rank_stages_[rank.index()].size() > 1; }

  void find_durations() {
    std::vector<double> durations_s;
    for (const TraceEvent& event : trace_.events) {
      if (!is_compute(event.action.kind) || event.end_s <= event.start_s) continue;
      durations_s.push_back(event.end_s - event.start_s);
      const std::string label = task_label(event.action, with_stage(event.rank));
      longest_label_ = std::max(longest_label_, static_cast<int>(label.size()));
    }
    if (durations_s.empty()) return;
    std::sort(durations_s.begin(), durations_s.end());
    shortest_s_ = std::max(quantile(durations_s, 0.1), quantile(durations_s, 0.9) / kLargestRatio);
  }

  int column(double time_s) const {
    return static_cast<int>(std::lround(time_s * unit_ / shortest_s_));
  }

  // The whole trace if it fits in narrow cells, else its beginning and its end: as wide
  // cells as let the warm-up be seen. Both parts begin and end where a task would, if all
  // were as long as the shortest.
  void choose_panels() {
    if (shortest_s_ <= 0) return;
    const int room =
        std::max(width_ - label_width_, 2 * kWidestUnit + static_cast<int>(kCut.size()));
    const int widest = std::clamp(longest_label_ + 1, kNarrowestUnit, kWidestUnit);
    for (unit_ = widest; unit_ >= kNarrowestUnit; --unit_) {
      const int end = column(trace_.iteration_s);
      if (end > room) continue;
      panels_ = {{0, end}};
      return;
    }
    const int both = room - static_cast<int>(kCut.size());
    for (unit_ = widest;; --unit_) {
      const int first = static_cast<int>(kFirstShare * both) / unit_ * unit_;
      if (column(warm_up_s()) > first && unit_ > kNarrowestUnit) continue;
      const int end = column(trace_.iteration_s);
      const int second_begin = (end - (both - first) + unit_ - 1) / unit_ * unit_;
      panels_ = {{0, first}, {second_begin, end}};
      return;
    }
  }

  // When the first backward has ended.
  double warm_up_s() const {
    double end_s = trace_.iteration_s;
    bool found = false;
    for (const TraceEvent& event : trace_.events) {
      if (!is_compute(event.action.kind) || event.action.kind == ActionKind::kForward) continue;
      end_s = std::min(end_s, event.end_s);
      found = true;
    }
    return found ? end_s : 0;
  }

  std::string row(RankId rank, const Panel& panel) {
    std::string cells(static_cast<std::size_t>(panel.size()), '.');
    std::string kinds = cells;  // of what each character is
    for (const TraceEvent& event : trace_.events) {
      if (event.rank != rank || !is_compute(event.action.kind)) continue;
      const int begin = std::max(column(event.start_s), panel.begin);
      const int end = std::min(column(event.end_s), panel.end);
      if (event.end_s > event.start_s && column(event.start_s) == column(event.end_s)) ++too_short_;
      if (begin >= end) continue;
      const auto room = static_cast<std::size_t>(end - begin);
      const auto first = static_cast<std::size_t>(begin - panel.begin);
      cells.replace(first, room, cell(event, room));
      kinds.replace(first, room, room, compute_letter(event.action.kind));
    }
    return colours_ ? coloured(cells, kinds) : cells;
  }

  static std::string coloured(const std::string& cells, const std::string& kinds) {
    std::string text;
    for (std::size_t i = 0; i < cells.size();) {
      std::size_t end = i;
      while (end < cells.size() && kinds[end] == kinds[i]) ++end;
      text += std::string(colour_of(kinds[i])) + cells.substr(i, end - i) + "\x1b[0m";
      i = end;
    }
    return text;
  }

  static std::string_view colour_of(char kind) {
    switch (kind) {
      case 'F':
        return "\x1b[34m";
      case 'W':
        return "\x1b[35m";
      case 'R':
        return "\x1b[36m";
      case '.':
        return "\x1b[2m";
      default:
        return "\x1b[33m";
    }
  }

  // "B3--- ": the label, then dashes, and a blank before the next. A label that does not
  // fit is its letter: half a number would be another's.
  std::string cell(const TraceEvent& event, std::size_t room) const {
    std::string text = task_label(event.action, with_stage(event.rank));
    if (text.size() > room) text = compute_letter(event.action.kind);
    const bool blank = text.size() < room;
    text.resize(room, '-');
    if (blank) text.back() = ' ';
    return text;
  }

  // Times at the ends of the panels, the later one where there is room for both.
  std::string axis() const {
    std::string line(static_cast<std::size_t>(label_width_), ' ');
    for (std::size_t p = 0; p < panels_.size(); ++p) {
      if (p > 0) line += std::string(kCut.size(), ' ');
      const std::string from = p == 0 ? "0 s" : time_text(panels_[p].begin);
      const std::string to =
          p + 1 == panels_.size() ? seconds_text(trace_.iteration_s) : time_text(panels_[p].end);
      const int between = panels_[p].size() - static_cast<int>(from.size());
      line += between > static_cast<int>(to.size())
                  ? fmt::format("{}{:>{}}", from, to, between)
                  : fmt::format("{:<{}}", from, panels_[p].size());
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  }

  std::string time_text(int column) const { return seconds_text(column * shortest_s_ / unit_); }

  std::string legend() const {
    if (panels_.empty()) return "";
    std::string text = fmt::format(
        "F3 is the forward of micro-batch 3, B3 its backward, a dot idle; a character is {}\n",
        time_text(1));
    if (panels_.size() > 1) text += "~ stands for the time between that is not shown\n";
    if (too_short_ > 0) {
      text += fmt::format("{} too short to be drawn\n",
                          too_short_ == 1 ? "1 task is" : fmt::format("{} tasks are", too_short_));
    }
    return text;
  }

  const Trace& trace_;
  std::vector<std::vector<StageId>> rank_stages_;
  std::vector<RankRange> rows_;
  int width_;
  bool colours_;
  std::vector<std::string> labels_;
  int label_width_ = 0;
  int longest_label_ = 2;
  double shortest_s_ = 0;   // of common tasks
  int unit_ = kWidestUnit;  // characters of such a task
  int too_short_ = 0;
  std::vector<Panel> panels_;
};

}  // namespace

std::string schedule_grid(const Trace& trace, const Schedule& schedule, const Plan& plan,
                          int columns, bool colours) {
  return Grid(trace, schedule, plan, columns, colours).text();
}

}  // namespace graphpipe

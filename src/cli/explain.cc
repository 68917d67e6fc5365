#include "cli/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "graph/series_parallel.h"
#include "planners/stage_tps.h"
#include "report/text_report.h"
#include "report/text_table.h"
#include "search/plan_bound.h"

namespace graphpipe {
namespace {

constexpr std::size_t kOperatorColumns = 34;
// Memory that is fuller than this limits a stage.
constexpr double kFull = 0.9;
// What is within this of the slowest stage counts as slowest too.
constexpr double kNear = 0.02;

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "-";
}

std::string tree_section(const Graph& graph) {
  const SpTree tree = decompose_series_parallel(graph);
  return fmt::format("The graph has {} operators and is {}.\n", graph.op_count(),
                     tree.exact ? "series-parallel"
                                : "not series-parallel: planned over " + added_order_text(tree)) +
         pieces_text(tree, graph, 2);
}

class StageSection {
 public:
  StageSection(const Problem& problem, const Plan& plan)
      : problem_(problem), plan_(plan), table_(problem) {
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      tps_s_.push_back(tps_s(plan.stages[s], plan.stages[s].ops));
      owner_.resize(problem.graph->op_count());
      for (const OpId op : plan.stages[s].ops) owner_[op.index()] = s;
    }
    slowest_s_ = *std::ranges::max_element(tps_s_);
  }

  std::string text() {
    TextTable table({{"stage"},
                     {"operators", Align::kLeft},
                     {"devices"},
                     {"time/sample"},
                     {"of slowest"},
                     {"memory"},
                     {"limited by", Align::kLeft},
                     {"one operator more", Align::kLeft}});
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) table.add_row(row(s));
    return fmt::format(
        "The slowest stage takes {} a sample, so {} samples take {} or more; filling and draining "
        "the\n"
        "pipeline, waiting and reductions make it {}.\n{}",
        seconds_text(slowest_s_), plan_.mini_batch,
        seconds_text(slowest_s_ * static_cast<double>(plan_.mini_batch)),
        seconds_text(plan_.estimate.iteration_s), table.text());
  }

 private:
  double tps_s(const Stage& stage, const std::vector<OpId>& ops) {
    const auto width = static_cast<int>(stage.devices.size());
    if (stage.replication == Replication::kSplit) {
      return stage_tps_s(table_, ops, stage.micro_batch, width, stage.recompute);
    }
    return stage_tps_s(table_, ops, stage.micro_batch, 1, stage.recompute) / width;
  }

  double compute_s(const Stage& stage) const {
    const auto width = static_cast<std::int64_t>(stage.devices.size());
    const bool split = stage.replication == Replication::kSplit;
    const std::int64_t share = split ? (stage.micro_batch + width - 1) / width : stage.micro_batch;
    const StageCost cost = stage_cost(*problem_.costs, *problem_.graph, stage.ops, share,
                                      problem_.cluster->type_of(stage.devices[0]));
    const double again_s = stage.recompute ? cost.forward_s : 0;
    return (cost.forward_s + again_s + cost.backward_s) /
           static_cast<double>(stage.micro_batch * (split ? 1 : width));
  }

  std::vector<std::string> row(std::size_t s) {
    const Stage& stage = plan_.stages[s];
    const std::string& first = problem_.graph->op(stage.ops.front()).name;
    std::string operators = shortened(first, kOperatorColumns);
    if (stage.ops.size() > 1) {
      operators =
          fmt::format("{} + {}", shortened(first, kOperatorColumns - 6), stage.ops.size() - 1);
    }
    const double has =
        static_cast<double>(problem_.cluster->type_of(stage.devices[0]).memory_bytes);
    const double used = s < plan_.estimate.stage_memory_bytes.size()
                            ? static_cast<double>(plan_.estimate.stage_memory_bytes[s])
                            : 0;
    return {fmt::format("{}", s),
            operators,
            fmt::format("{}", stage.devices.size()),
            seconds_text(tps_s_[s]),
            percent(tps_s_[s], slowest_s_),
            percent(used, has),
            limit_text(s, used, has),
            one_more_text(s)};
  }

  std::string limit_text(std::size_t s, double used, double has) const {
    std::string text;
    const auto add = [&](const char* what) {
      text += (text.empty() ? "" : ", ") + std::string(what);
    };
    if (used > kFull * has) add("memory");
    if (tps_s_[s] > (1 - kNear) * slowest_s_) {
      add(tps_s_[s] > compute_s(plan_.stages[s]) * (1 + kNear) ? "messages" : "compute");
    }
    return text.empty() ? "nothing" : text;
  }

  // The neighbouring operator that would cost the stage least.
  std::string one_more_text(std::size_t s) {
    const Stage& stage = plan_.stages[s];
    std::optional<std::pair<double, OpId>> least;
    for (const OpId op : neighbours(s)) {
      std::vector<OpId> ops = stage.ops;
      ops.insert(std::ranges::upper_bound(ops, op), op);
      const double larger_s = tps_s(stage, ops);
      if (!least || larger_s < least->first) least = {larger_s, op};
    }
    if (!least) return "-";
    return fmt::format("{}: {}", shortened(problem_.graph->op(least->second).name, 24),
                       percent(least->first, slowest_s_));
  }

  // Operators of other stages that a data edge joins to this one.
  std::set<OpId> neighbours(std::size_t s) const {
    const Graph& graph = *problem_.graph;
    std::set<OpId> found;
    for (std::size_t o = 0; o < graph.op_count(); ++o) {
      for (const TensorId in : graph.ops[o].inputs) {
        const OpId before = graph.tensor(in).producer;
        if (!before.valid() || (owner_[o] == s) == (owner_[before.index()] == s)) continue;
        found.insert(owner_[o] == s ? before : OpId(o));
      }
    }
    return found;
  }

  const Problem& problem_;
  const Plan& plan_;
  CostTable table_;
  std::vector<double> tps_s_;
  std::vector<std::size_t> owner_;
  double slowest_s_ = 0;
};

// "12 plans, of 3 to 8 stages".
struct SizeSummary {
  int plans = 0;
  int refused = 0;
  const WeighedPlan* best = nullptr;  // by iteration where simulated, else by floor
};

// Those that were simulated come first.
std::pair<bool, double> rank(const WeighedPlan& plan) {
  const bool simulated = plan.iteration_s > 0;
  return {!simulated, simulated ? plan.iteration_s : plan.floor_s};
}

std::string outcome_text(const SizeSummary& size, double taken_s) {
  if (size.best == nullptr) return "no plan proposed: none fits, or none comes near the best";
  const WeighedPlan& best = *size.best;
  if (!best.refused.empty()) return "refused: " + shortened(best.refused, 40);
  if (best.iteration_s == 0) {
    return fmt::format("not simulated: no less than {} above",
                       percent(best.floor_s - taken_s, taken_s));
  }
  if (best.iteration_s > taken_s * (1 + 1e-9)) {
    return fmt::format("{:.1f} % slower", 100 * (best.iteration_s / taken_s - 1));
  }
  return "taken, or a start for what was taken";
}

std::string candidates_section(const Problem& problem, const SearchResult& result) {
  std::map<std::int64_t, SizeSummary> sizes;
  for (const std::int64_t b : micro_batch_sizes(problem)) sizes[b];
  int simulated = 0;
  for (const WeighedPlan& plan : result.weighed) {
    SizeSummary& size = sizes[plan.micro_batch];
    ++size.plans;
    simulated += plan.iteration_s > 0 ? 1 : 0;
    if (size.best == nullptr || rank(plan) < rank(*size.best)) size.best = &plan;
  }
  TextTable table({{"b"},
                   {"plans"},
                   {"best: stages"},
                   {"depth"},
                   {"slowest stage/sample"},
                   {"no less than"},
                   {"simulated"},
                   {"outcome", Align::kLeft}});
  const double taken_s = result.plan.estimate.iteration_s;
  for (const auto& [b, size] : sizes) {
    const WeighedPlan* best = size.best;
    table.add_row(
        {b > 0 ? fmt::format("{}", b) : "mixed", fmt::format("{}", size.plans),
         best ? fmt::format("{}", best->stages) : "-", best ? fmt::format("{}", best->depth) : "-",
         best ? seconds_text(best->slowest_tps_s) : "-", best ? seconds_text(best->floor_s) : "-",
         best && best->iteration_s > 0 ? seconds_text(best->iteration_s) : "-",
         outcome_text(size, taken_s)});
  }
  return fmt::format(
      "{} plans were weighed, {} of them simulated; for each micro-batch size the best:\n{}",
      result.weighed.size(), simulated, table.text());
}

std::string bound_section(const Problem& problem, const Plan& plan) {
  const LowerBound bound = plan_lower_bound(problem, plan.schedule);
  return fmt::format(
      "No plan within the options is faster than {} (by {}): this one is {:.1f} % above.\n",
      seconds_text(bound.seconds), bound.why,
      100 * (plan.estimate.iteration_s / bound.seconds - 1));
}

}  // namespace

std::string explain_text(const Problem& problem, const SearchResult& result) {
  return tree_section(*problem.graph) + "\n" + StageSection(problem, result.plan).text() + "\n" +
         candidates_section(problem, result) + "\n" + bound_section(problem, result.plan) +
         fmt::format("Searching took {}, judging {}.\n", seconds_text(result.search_s),
                     seconds_text(result.judge_s));
}

}  // namespace graphpipe

#include "planners/graphpipe/infeasible.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "base/numbers.h"
#include "base/text.h"
#include "cost/operator_bounds.h"
#include "planners/graphpipe/target_search.h"

namespace graphpipe {
namespace {

// More devices than this are not proposed.
constexpr int kMostDevices = 1024;

// From the number that may do, counts growing by this part of themselves are tried up to so many
// times as many.
constexpr double kMoreDevices = 1.25;
constexpr double kMostMore = 4;

// The least memory that would do is found to within this part of it.
constexpr double kMemoryPrecision = 0.01;

std::string size_text(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

struct OperatorNeed {
  OpId op;
  std::int64_t bytes = 0;
};

// What a device holds that runs a task of so many samples of the operator, whatever else its
// stage has: no plan is below it.
std::int64_t least_bytes(const CostTable& table, const std::vector<bool>& needs, OpId op,
                         std::int64_t samples) {
  const Problem& problem = table.problem();
  return stage_static_memory(*problem.graph, {op}, problem.options.optimizer).static_bytes() +
         least_saved_bytes(*problem.costs, *problem.graph, needs, op, samples, table.device());
}

// The operator that needs the most, in tasks as small as can be. Requires: operators.
OperatorNeed largest_operator(CostTable& table, std::int64_t micro_batch) {
  const Problem& problem = table.problem();
  const std::int64_t devices = problem.options.data_parallel ? problem.cluster->device_count() : 1;
  // The last share of a micro-batch or mini-batch may be smaller, but the first device has this.
  const std::int64_t samples = (micro_batch + devices - 1) / devices;
  const std::vector<bool> needs = needs_gradient(*problem.graph);
  OperatorNeed most;
  for (std::size_t o = 0; o < problem.graph->op_count(); ++o) {
    const std::int64_t bytes = least_bytes(table, needs, OpId(o), samples);
    if (bytes > most.bytes) most = {OpId(o), bytes};
  }
  return most;
}

std::int64_t kept_bytes(const Problem& problem) {
  std::vector<OpId> all;
  for (std::size_t o = 0; o < problem.graph->op_count(); ++o) all.emplace_back(o);
  return stage_static_memory(*problem.graph, all, problem.options.optimizer).static_bytes();
}

// A strategy that fits: for certain with loose windows, where messages are counted from above.
struct Way {
  int devices = 0;
  std::int64_t micro_batch = 0;
};

// The rules with loose windows.
SearchRules certain(SearchRules rules) {
  rules.loose_windows = true;
  return rules;
}

// The problem on devices of another memory, or, by the rules, more of them.
class Relaxed {
 public:
  Relaxed(const Problem& problem, const SpTree& tree, SearchRules rules, std::int64_t memory_bytes)
      : cluster_(*problem.cluster), problem_(problem), rules_(std::move(rules)) {
    for (DeviceType& type : cluster_.types) type.memory_bytes = memory_bytes;
    problem_.cluster = &cluster_;
    table_ = std::make_unique<CostTable>(problem_);
    context_ = std::make_unique<SearchContext>(*table_, tree, rules_, budget_);
  }

  // The fewest devices at the micro-batch size.
  std::optional<Way> fewest(std::int64_t micro_batch) {
    TargetSearch search(*context_, micro_batch);
    std::optional<Way> least;
    for (const Target& way : search.ways(kInfinity)) {
      if (!least || way.devices < least->devices) least = Way{way.devices, micro_batch};
    }
    return least;
  }

  // Its stage that takes the most memory: "stage a .. b (7 operators)", and what it takes.
  std::string fullest_stage(std::int64_t micro_batch, std::int64_t limit_bytes) {
    TargetSearch search(*context_, micro_batch);
    const std::vector<Target> ways = search.ways(kInfinity);
    if (ways.empty()) return "";
    const auto fewest = std::ranges::min_element(ways, {}, &Target::devices);
    std::string text;
    std::int64_t most = 0;
    for (const StageDraft& stage : search.stages(*fewest)) {
      const StageSums sums = search.sums(stage);
      std::int64_t bytes = search.costs().memory_bytes(sums, stage.spans, stage.width, stage.level);
      if (search.costs().may_recompute(sums)) {
        bytes = std::min(
            bytes, search.costs().memory_bytes(sums, stage.spans, stage.width, stage.level, true));
      }
      if (bytes <= most) continue;
      most = bytes;
      text = fmt::format("{} at micro-batch {} needs up to {}, {} more than a device has",
                         operators_text(stage), micro_batch, size_text(bytes),
                         size_text(bytes - limit_bytes));
    }
    return most > limit_bytes ? text : "";
  }

 private:
  std::string operators_text(const StageDraft& stage) const {
    std::vector<OpId> ops;
    for (const Span span : stage.spans) {
      for (int p = span.begin; p < span.end; ++p) {
        ops.push_back(context_->pieces.positions[static_cast<std::size_t>(p)].op);
      }
    }
    std::ranges::sort(ops);
    const std::string& first = problem_.graph->op(ops.front()).name;
    if (ops.size() == 1) return "operator " + first;
    return fmt::format("the stage {} .. {} ({} operators)", first,
                       problem_.graph->op(ops.back()).name, ops.size());
  }

  Cluster cluster_;
  Problem problem_;
  SearchRules rules_;
  Budget budget_;
  std::unique_ptr<CostTable> table_;
  std::unique_ptr<SearchContext> context_;
};

class WhyInfeasible {
 public:
  WhyInfeasible(CostTable& table, const SpTree& tree, const SearchRules& rules,
                const std::vector<std::int64_t>& micro_batches, const HasPlan& has_plan)
      : table_(table),
        tree_(tree),
        rules_(rules),
        problem_(table.problem()),
        sizes_(micro_batches),
        has_plan_(has_plan),
        devices_(problem_.cluster->device_count()),
        limit_(table.device().memory_bytes) {
    for (int d = 0; d < devices_; ++d) {
      const std::int64_t bytes = problem_.cluster->type_of(DeviceId(d)).memory_bytes;
      largest_ = std::max(largest_, bytes);
      all_ += bytes;
    }
  }

  std::string text() {
    const std::int64_t smallest = sizes_.front();
    const OperatorNeed largest = largest_operator(table_, smallest);
    if (largest.bytes > largest_) {
      return fmt::format(
          "operator {} alone needs {} of memory or more at micro-batch {}, {} more than the {} of "
          "a "
          "device ({}): no plan within the options fits{}",
          problem_.graph->op(largest.op).name, size_text(largest.bytes), smallest,
          size_text(largest.bytes - largest_), size_text(largest_), table_.device().name,
          remedies_text());
    }
    const std::int64_t kept = kept_bytes(problem_);
    if (kept > all_) {
      return fmt::format(
          "weights, gradients and optimiser state take {}, {} more than the {} of {} devices: no "
          "plan fits{}",
          size_text(kept), size_text(kept - all_), size_text(all_), devices_, remedies_text());
    }
    return fmt::format(
        "none was found that fits (weights, gradients and optimiser state take {} of the {} of "
        "{} devices){}",
        size_text(kept), size_text(all_), devices_, remedies_text());
  }

 private:
  // "; 6 devices at micro-batch 1 would do; ...".
  std::string remedies_text() {
    std::string text;
    if (const std::string nearest = nearest_text(); !nearest.empty()) {
      text += "; the nearest: " + nearest;
    }
    if (const std::optional<Way> way = more_devices()) {
      text +=
          fmt::format("; {} devices at micro-batch {} would do", way->devices, way->micro_batch);
    }
    if (const std::int64_t b = smaller_micro_batch(); b > 0) {
      text += fmt::format("; micro-batch {} would do on {}", b, devices_text());
    }
    if (memory_that_does_ > 0) {
      text += fmt::format("; {} of {} each would do", devices_text(), size_text(memory_that_does_));
    }
    return text;
  }

  std::string devices_text() const {
    return devices_ == 1 ? "1 device" : fmt::format("{} devices", devices_);
  }

  // The fewest for which there is a plan at the micro-batch size that may do with the fewest.
  std::optional<Way> more_devices() {
    SearchRules rules = rules_;
    rules.devices = kMostDevices;
    rules.loose_windows = false;
    Relaxed wide(problem_, tree_, rules, limit_);
    std::optional<Way> least;
    for (const std::int64_t b : sizes_) {
      const std::optional<Way> way = wide.fewest(b);
      if (way && (!least || way->devices < least->devices)) least = way;
    }
    if (!least) return std::nullopt;
    // What it leaves out may take more.
    const double most = std::min<double>(kMostDevices, kMostMore * least->devices);
    double devices = std::max(least->devices, devices_ + 1);
    for (; devices <= most; devices = std::max(devices + 1, devices * kMoreDevices)) {
      const Way way = {static_cast<int>(devices), least->micro_batch};
      if (has_plan(way)) return way;
    }
    return std::nullopt;
  }

  bool has_plan(const Way& way) const {
    Cluster cluster = *problem_.cluster;
    cluster.device_type.resize(static_cast<std::size_t>(way.devices), cluster.device_type[0]);
    int group = 1;
    for (std::size_t i = 0; i + 1 < cluster.levels.size(); ++i) {
      group *= cluster.levels[i].group_size;
    }
    cluster.levels.back().group_size = (way.devices + group - 1) / group;
    Problem problem = problem_;
    problem.cluster = &cluster;
    problem.options.micro_batches = {way.micro_batch};
    return has_plan_(problem);
  }

  // The largest that is smaller than all that the options have.
  std::int64_t smaller_micro_batch() {
    std::int64_t b = 1;
    while (2 * b < sizes_.front()) b *= 2;
    Relaxed same(problem_, tree_, certain(rules_), limit_);
    for (; b >= 1 && b < sizes_.front(); b /= 2) {
      const std::optional<Way> way = same.fewest(b);
      if (way && way->devices <= devices_) return b;
    }
    return 0;
  }

  // Looks for the least memory of a device with which the devices would do, and names the stage
  // that takes it.
  std::string nearest_text() {
    const auto does = [&](std::int64_t bytes) -> std::int64_t {
      Relaxed relaxed(problem_, tree_, certain(rules_), bytes);
      for (const std::int64_t b : sizes_) {
        if (const std::optional<Way> way = relaxed.fewest(b); way && way->devices <= devices_) {
          return b;
        }
      }
      return 0;
    };
    std::int64_t low = limit_;
    std::int64_t high = limit_;
    std::int64_t micro_batch = 0;
    while (micro_batch == 0 && high < std::int64_t{1} << 50) {
      low = high;
      high *= 2;
      micro_batch = does(high);
    }
    if (micro_batch == 0) return "";
    while (static_cast<double>(high - low) > kMemoryPrecision * static_cast<double>(high)) {
      const std::int64_t middle = low + (high - low) / 2;
      if (const std::int64_t b = does(middle); b > 0) {
        high = middle;
        micro_batch = b;
      } else {
        low = middle;
      }
    }
    memory_that_does_ = high;
    return Relaxed(problem_, tree_, certain(rules_), high).fullest_stage(micro_batch, limit_);
  }

  CostTable& table_;
  const SpTree& tree_;
  const SearchRules& rules_;
  const Problem& problem_;
  const std::vector<std::int64_t>& sizes_;
  const HasPlan& has_plan_;
  int devices_;
  std::int64_t limit_;        // of the device that has the least
  std::int64_t largest_ = 0;  // of the one that has the most
  std::int64_t all_ = 0;      // of all devices
  std::int64_t memory_that_does_ = 0;
};

}  // namespace

std::string why_infeasible(CostTable& table, const SpTree& tree, const SearchRules& rules,
                           const std::vector<std::int64_t>& micro_batches,
                           const HasPlan& has_plan) {
  return WhyInfeasible(table, tree, rules, micro_batches, has_plan).text();
}

}  // namespace graphpipe

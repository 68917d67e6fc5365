#include "planners/graphpipe/infeasible.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "planners/graphpipe/target_search.h"

namespace graphpipe {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// More devices than this are not proposed.
constexpr int kMostDevices = 1024;

std::string size_text(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

struct LargestOperator {
  int position = -1;
  std::int64_t memory_bytes = 0;
};

// Alone on a stage with one micro-batch in flight, on its best width.
LargestOperator largest_operator(SearchContext& context, std::int64_t micro_batch) {
  const StageCosts costs(context.columns, micro_batch, context.rules);
  LargestOperator largest;
  for (int p = 0; p < static_cast<int>(context.pieces.positions.size()); ++p) {
    context.accumulator.clear();
    context.accumulator.add(p);
    const Span spans[] = {{p, p + 1}};
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int w = 0; w < costs.width_count(); ++w) {
      const StageSums& sums = context.accumulator.sums();
      least = std::min(least, costs.memory_bytes(sums, spans, w, 1));
      if (costs.may_recompute(sums)) {
        least = std::min(least, costs.memory_bytes(sums, spans, w, 1, true));
      }
    }
    if (least > largest.memory_bytes) largest = {p, least};
  }
  return largest;
}

}  // namespace

std::string why_infeasible(CostTable& table, const SpTree& tree, const SearchRules& rules,
                           const std::vector<std::int64_t>& micro_batches) {
  const Problem& problem = table.problem();
  const std::int64_t limit = table.device().memory_bytes;
  const Budget budget;
  SearchContext context(table, tree, rules, budget);
  const LargestOperator largest = largest_operator(context, micro_batches.front());
  if (largest.memory_bytes > limit) {
    const OpId op = context.pieces.positions[at(largest.position)].op;
    return fmt::format(
        "operator {} alone needs {} of memory at micro-batch {}, {} more than the {} of a device "
        "({}); a device of that memory would do for it{}",
        problem.graph->op(op).name, size_text(largest.memory_bytes), micro_batches.front(),
        size_text(largest.memory_bytes - limit), size_text(limit), table.device().name,
        micro_batches.front() > 1 ? ", or a smaller micro-batch" : "");
  }
  SearchRules more = rules;
  more.devices = kMostDevices;
  SearchContext wide(table, tree, more, budget);
  Target least;
  std::int64_t least_micro_batch = 0;
  for (const std::int64_t b : micro_batches) {
    TargetSearch search(wide, b);
    for (const Target& way : search.ways(std::numeric_limits<double>::infinity())) {
      if (least_micro_batch > 0 && way.devices >= least.devices) continue;
      least = way;
      least_micro_batch = b;
    }
  }
  wide.accumulator.clear();
  wide.accumulator.add(Span{0, static_cast<int>(wide.pieces.positions.size())});
  const std::int64_t kept = wide.accumulator.sums().static_bytes;
  const int devices = problem.cluster->device_count();
  const std::string keeps =
      fmt::format("weights, gradients and optimiser state take {} of the {} of {} devices",
                  size_text(kept), size_text(limit * devices), devices);
  if (least_micro_batch == 0) {
    return fmt::format("no split into stages fits the {} of a device ({}) on up to {} devices; {}",
                       size_text(limit), table.device().name, kMostDevices, keeps);
  }
  return fmt::format("memory: {}; {} devices at micro-batch {} would do", keeps, least.devices,
                     least_micro_batch);
}

}  // namespace graphpipe

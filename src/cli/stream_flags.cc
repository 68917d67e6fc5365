#include "cli/stream_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <vector>

#include "base/error.h"
#include "search/stream_plan.h"

namespace graphpipe {

void StreamFlags::add_to(CLI::App& command) {
  command.add_flag("--async", asynchronous,
                   "an asynchronous pipeline: a step after each mini-batch, without a flush");
  command.add_option("--policy", policy,
                     "of --async, which weights: stash (the default), vertical-sync, 2bw, naive");
}

WeightPolicy StreamFlags::parse() const {
  if (!asynchronous) {
    if (!policy.empty()) throw InputError("--policy", "is for --async, which is not given");
    return WeightPolicy::kSynchronous;
  }
  const std::string name = policy.empty() ? "stash" : policy;
  for (const WeightPolicy known : {WeightPolicy::kStash, WeightPolicy::kVerticalSync,
                                   WeightPolicy::k2bw, WeightPolicy::kNaive}) {
    if (name == weight_policy_name(known)) return known;
  }
  throw InputError(
      "--policy",
      fmt::format("expected one of stash, vertical-sync, 2bw, naive; found '{}'", name));
}

void check_stream_sizes(WeightPolicy policy, const Problem& problem) {
  const std::vector<std::int64_t>& sizes = problem.options.micro_batches;
  if (policy != WeightPolicy::k2bw) {
    if (sizes.empty() || sizes == std::vector{problem.mini_batch}) return;
    throw InputError("--micro-batch", fmt::format("an asynchronous pipeline steps after each "
                                                  "micro-batch, so that it is the mini-batch of "
                                                  "{}; leave it out, or take --policy 2bw",
                                                  problem.mini_batch));
  }
  if (sizes.size() == 1 && problem.mini_batch % sizes[0] == 0) return;
  throw InputError(
      "--micro-batch",
      fmt::format("2bw takes one size that divides the mini-batch of {}", problem.mini_batch));
}

SearchResult search_any_plan(const Planner& planner, const Problem& problem, WeightPolicy policy,
                             const SearchControl& control) {
  if (!is_asynchronous(policy)) return search_plan(planner, problem, control);
  check_stream_sizes(policy, problem);
  return search_stream_plan(planner, problem, policy, control);
}

}  // namespace graphpipe

// --async and --policy: asynchronous pipelines, for `plan` and `compare`.

#pragma once

#include <string>

#include "plan/plan.h"
#include "planners/planner.h"
#include "search/search.h"

namespace CLI {
class App;
}

namespace graphpipe {

struct StreamFlags {
  bool asynchronous = false;
  std::string policy = {};  // "": stash

  void add_to(CLI::App& command);
  // Throws InputError where the policy is unknown, or given without --async.
  WeightPolicy parse() const;
};

// Micro-batches are mini-batches, but for 2bw; throws InputError where the options say else.
void check_stream_sizes(WeightPolicy policy, const Problem& problem);

// search_plan(), or of an asynchronous policy search_stream_plan().
SearchResult search_any_plan(const Planner& planner, const Problem& problem, WeightPolicy policy,
                             const SearchControl& control);

}  // namespace graphpipe

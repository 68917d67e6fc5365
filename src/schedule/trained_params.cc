#include "schedule/trained_params.h"

#include <algorithm>

namespace graphpipe {
namespace {

template <typename T>
void sort_unique(std::vector<T>& items) {
  std::ranges::sort(items);
  const auto repeated = std::ranges::unique(items);
  items.erase(repeated.begin(), repeated.end());
}

}  // namespace

std::vector<ParamHolders> trained_params(const Plan& plan, const Graph& graph) {
  const std::vector<bool> needs = needs_gradient(graph);
  std::vector<bool> trained(graph.params.size(), false);
  for (const Operator& op : graph.ops) {
    const bool gradient = has_backward(op, needs);
    for (const ParamId p : op.params) {
      if (gradient && graph.param(p).trainable) trained[p.index()] = true;
    }
  }
  std::vector<ParamHolders> by_param(graph.params.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const OpId op : plan.stages[s].ops) {
      for (const ParamId p : graph.op(op).params) {
        ParamHolders& held = by_param[p.index()];
        held.stages.emplace_back(s);
        held.devices.insert(held.devices.end(), plan.stages[s].devices.begin(),
                            plan.stages[s].devices.end());
      }
    }
  }
  std::vector<ParamHolders> result;
  for (std::size_t p = 0; p < by_param.size(); ++p) {
    if (!trained[p] || by_param[p].stages.empty()) continue;
    by_param[p].param = ParamId(p);
    sort_unique(by_param[p].stages);
    sort_unique(by_param[p].devices);
    result.push_back(std::move(by_param[p]));
  }
  return result;
}

std::vector<bool> stages_with_trained_params(const Plan& plan, const Graph& graph) {
  std::vector<bool> result(plan.stages.size(), false);
  for (const ParamHolders& held : trained_params(plan, graph)) {
    for (const StageId stage : held.stages) result[stage.index()] = true;
  }
  return result;
}

}  // namespace graphpipe

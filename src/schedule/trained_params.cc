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

// [parameter]
std::vector<bool> are_trained(const Graph& graph, const std::vector<bool>& needs) {
  std::vector<bool> trained(graph.params.size(), false);
  for (const Operator& op : graph.ops) {
    if (!has_backward(op, needs)) continue;
    for (const ParamId p : op.params) {
      if (graph.param(p).trainable) trained[p.index()] = true;
    }
  }
  return trained;
}

template <typename Use>
void for_each_reader(const Plan& plan, const Graph& graph, Use use) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const OpId op : plan.stages[s].ops) {
      for (const ParamId p : graph.op(op).params) use(s, p);
    }
  }
}

}  // namespace

std::vector<ParamHolders> trained_params(const Plan& plan, const Graph& graph) {
  const std::vector<bool> trained = are_trained(graph, needs_gradient(graph));
  std::vector<ParamHolders> by_param(graph.params.size());
  for_each_reader(plan, graph, [&](std::size_t s, ParamId p) {
    ParamHolders& held = by_param[p.index()];
    if (!held.stages.empty() && held.stages.back() == StageId(s)) return;
    held.stages.emplace_back(s);
    held.devices.insert(held.devices.end(), plan.stages[s].devices.begin(),
                        plan.stages[s].devices.end());
  });
  std::vector<ParamHolders> result;
  for (std::size_t p = 0; p < by_param.size(); ++p) {
    if (!trained[p] || by_param[p].stages.empty()) continue;
    by_param[p].param = ParamId(p);
    sort_unique(by_param[p].devices);
    result.push_back(std::move(by_param[p]));
  }
  return result;
}

std::vector<bool> stages_with_trained_params(const Plan& plan, const Graph& graph) {
  const std::vector<bool> trained = are_trained(graph, needs_gradient(graph));
  std::vector<bool> result(plan.stages.size(), false);
  for_each_reader(plan, graph, [&](std::size_t s, ParamId p) {
    if (trained[p.index()]) result[s] = true;
  });
  return result;
}

std::vector<std::int64_t> trained_bytes_of_one_stage(const Plan& plan, const Graph& graph,
                                                     const std::vector<bool>& needs) {
  const std::vector<bool> trained = are_trained(graph, needs);
  constexpr std::size_t kNobody = SIZE_MAX;
  constexpr std::size_t kSeveral = SIZE_MAX - 1;
  std::vector<std::size_t> reader(graph.params.size(), kNobody);
  for_each_reader(plan, graph, [&](std::size_t s, ParamId p) {
    std::size_t& known = reader[p.index()];
    known = known == kNobody || known == s ? s : kSeveral;
  });
  std::vector<std::int64_t> bytes(plan.stages.size(), 0);
  for (std::size_t p = 0; p < reader.size(); ++p) {
    if (trained[p] && reader[p] < bytes.size()) bytes[reader[p]] += param_bytes(graph.params[p]);
  }
  return bytes;
}

}  // namespace graphpipe

#include "schedule/buckets.h"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/stage_memory.h"
#include "schedule/placement.h"
#include "schedule/trained_params.h"

namespace graphpipe {
namespace {

// [parameter]: the first operator that reads it, whose backward finishes its gradient.
std::vector<OpId> first_readers(const Graph& graph) {
  std::vector<OpId> first(graph.params.size());
  for (std::size_t op = graph.ops.size(); op-- > 0;) {
    for (const ParamId param : graph.ops[op].params) first[param.index()] = OpId(op);
  }
  return first;
}

}  // namespace

std::vector<Bucket> reduction_buckets(const Plan& plan, const Graph& graph) {
  std::vector<ParamHolders> trained = trained_params(plan, graph);
  const std::vector<OpId> first = first_readers(graph);
  std::ranges::stable_sort(trained, [&](const ParamHolders& a, const ParamHolders& b) {
    return first[b.param.index()] < first[a.param.index()];
  });
  const std::vector<DeviceId> devices = used_devices(plan);
  std::vector<Bucket> buckets;
  std::map<std::pair<std::vector<RankId>, DType>, std::size_t> open;  // index of the last one
  for (const ParamHolders& held : trained) {
    std::vector<RankId> ranks;
    for (const DeviceId device : held.devices) {
      const auto at = std::ranges::lower_bound(devices, device);
      ranks.emplace_back(static_cast<std::size_t>(at - devices.begin()));
    }
    if (ranks.size() < 2) continue;
    const std::int64_t bytes = param_bytes(graph.param(held.param));
    const auto [at, is_new] =
        open.try_emplace({ranks, graph.param(held.param).dtype}, buckets.size());
    if (!is_new && buckets[at->second].bytes + bytes > kBucketBytes) at->second = buckets.size();
    if (at->second == buckets.size()) buckets.push_back({.ranks = ranks});
    buckets[at->second].params.push_back(held.param);
    buckets[at->second].bytes += bytes;
  }
  return buckets;
}

}  // namespace graphpipe

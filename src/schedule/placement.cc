#include "schedule/placement.h"

#include <algorithm>

#include "base/error.h"

namespace graphpipe {

std::vector<DeviceId> used_devices(const Plan& plan) {
  std::vector<DeviceId> devices;
  for (const Stage& stage : plan.stages) {
    devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
  }
  std::ranges::sort(devices);
  const auto repeated = std::ranges::unique(devices);
  devices.erase(repeated.begin(), repeated.end());
  return devices;
}

std::vector<std::vector<Placement>> placements(const Plan& plan) {
  const std::vector<DeviceId> devices = used_devices(plan);
  std::vector<std::vector<Placement>> placed(devices.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    int replica = 0;
    for (const DeviceId device : plan.stages[s].devices) {
      const auto at = std::ranges::lower_bound(devices, device);
      placed[static_cast<std::size_t>(at - devices.begin())].push_back({StageId(s), replica++});
    }
  }
  return placed;
}

std::vector<RankProgram> empty_programs(const Plan& plan) {
  std::vector<RankProgram> programs;
  for (const DeviceId device : used_devices(plan)) programs.push_back({.device = device});
  return programs;
}

StageEdges stage_edges(const Plan& plan) {
  StageEdges edges;
  edges.in.resize(plan.stages.size());
  edges.out.resize(plan.stages.size());
  for (std::size_t e = 0; e < plan.edges.size(); ++e) {
    edges.in[plan.edges[e].to.index()].emplace_back(e);
    edges.out[plan.edges[e].from.index()].emplace_back(e);
  }
  return edges;
}

std::vector<bool> edges_with_backward(const Plan& plan, const std::vector<bool>& backward) {
  std::vector<bool> result;
  for (const StageEdge& edge : plan.edges) {
    result.push_back(edge.gradient && backward[edge.from.index()] && backward[edge.to.index()]);
  }
  return result;
}

}  // namespace graphpipe

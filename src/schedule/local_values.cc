#include "schedule/local_values.h"

#include <algorithm>
#include <set>

namespace graphpipe {
namespace {

// Of `part` of a task's `whole` samples. What does not grow with samples is there as a whole
// or not at all.
std::int64_t part_bytes(const Tensor& tensor, std::int64_t part, std::int64_t whole) {
  if (tensor.batched) return tensor_bytes(tensor, part);
  return part == whole ? tensor_bytes(tensor, part) : 0;
}

std::int64_t size_of(const std::vector<OwnedPart>& parts) {
  std::int64_t samples = 0;
  for (const OwnedPart& part : parts) samples += part.samples.size();
  return samples;
}

}  // namespace

LocalValues::LocalValues(const Schedule& schedule, const Plan& plan, const Graph& graph,
                         RankId rank)
    : plan_(plan),
      graph_(graph),
      device_(schedule.ranks[rank.index()].device),
      samples_(schedule.samples),
      in_(plan.stages.size()),
      out_(plan.stages.size()) {
  const auto runs_here = [&](StageId stage) {
    const std::vector<DeviceId>& devices = plan.stage(stage).devices;
    return std::ranges::find(devices, device_) != devices.end();
  };
  for (std::size_t e = 0; e < plan.edges.size(); ++e) {
    const StageEdge& edge = plan.edges[e];
    if (edge.kind != EdgeKind::kData || !runs_here(edge.from) || !runs_here(edge.to)) continue;
    in_[edge.to.index()].emplace_back(e);
    out_[edge.from.index()].emplace_back(e);
    any_ = true;
  }
  if (!any_) return;
  const std::vector<bool> backward = schedule.training
                                         ? stages_with_backward(plan, graph)
                                         : std::vector<bool>(plan.stages.size(), false);
  edge_backward_ = edges_with_backward(plan, backward);
  needs_ = needs_gradient(graph);
}

std::vector<OwnedPart> LocalValues::parts(EdgeId edge, StageId stage, SampleRange x) const {
  const StageEdge& ends = plan_.edge(edge);
  const Stage& peer = plan_.stage(ends.from == stage ? ends.to : ends.from);
  std::vector<OwnedPart> parts = owned_parts(peer, x, samples_);
  std::erase_if(parts, [&](const OwnedPart& part) {
    return peer.devices[static_cast<std::size_t>(part.replica)] != device_;
  });
  return parts;
}

std::int64_t LocalValues::read_bytes(StageId stage, SampleRange x) const {
  std::int64_t bytes = 0;
  for (const EdgeId edge : in(stage)) {
    const std::int64_t samples = size_of(parts(edge, stage, x));
    for (const TensorId tensor : plan_.edge(edge).tensors) {
      bytes += part_bytes(graph_.tensor(tensor), samples, x.size());
    }
  }
  return bytes;
}

// Each tensor once, of all the task's samples, whoever reads it.
std::int64_t LocalValues::made_bytes(StageId stage, SampleRange x) const {
  std::set<TensorId> made;
  for (const EdgeId edge : out(stage)) {
    if (parts(edge, stage, x).empty()) continue;
    made.insert(plan_.edge(edge).tensors.begin(), plan_.edge(edge).tensors.end());
  }
  std::int64_t bytes = 0;
  for (const TensorId tensor : made) bytes += tensor_bytes(graph_.tensor(tensor), x.size());
  return bytes;
}

std::int64_t LocalValues::gradient_bytes(EdgeId edge, StageId stage, SampleRange x) const {
  if (!edge_backward_[edge.index()]) return 0;
  std::int64_t bytes = 0;
  for (const OwnedPart& part : parts(edge, stage, x)) {
    for (const TensorId tensor : plan_.edge(edge).tensors) {
      if (!needs_[tensor.index()]) continue;
      bytes += tensor_bytes(graph_.tensor(tensor), part.samples.size());
    }
  }
  return bytes;
}

std::int64_t LocalValues::gradients_given_bytes(StageId stage, SampleRange x) const {
  std::int64_t bytes = 0;
  for (const EdgeId edge : in(stage)) bytes += gradient_bytes(edge, stage, x);
  return bytes;
}

std::int64_t LocalValues::gradients_taken_bytes(StageId stage, SampleRange x) const {
  std::int64_t bytes = 0;
  for (const EdgeId edge : out(stage)) bytes += gradient_bytes(edge, stage, x);
  return bytes;
}

}  // namespace graphpipe

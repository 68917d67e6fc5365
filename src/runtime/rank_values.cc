#include "runtime/rank_values.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "runtime/operators.h"
#include "schedule/owner_map.h"
#include "schedule/placement.h"

namespace graphpipe {
namespace {

// None where the plan has fewer ranks, which whoever starts them says.
DeviceId device_of(const Plan& plan, RankId rank) {
  const std::vector<DeviceId> devices = used_devices(plan);
  return rank.index() < devices.size() ? devices[rank.index()] : DeviceId();
}

}  // namespace

RankValues::RankValues(const Plan& plan, const Graph& graph, const Mailbox& mailbox, RankId rank)
    : plan_(plan),
      graph_(graph),
      mailbox_(mailbox),
      device_(device_of(plan, rank)),
      runners_(plan.stages.size(), nullptr) {}

void RankValues::add(StageId stage, const StageWork& runner) { runners_[stage.index()] = &runner; }

std::vector<RankValues::Part> RankValues::parts(StageId other, SampleRange samples) const {
  const Stage& stage = plan_.stage(other);
  std::vector<Part> result;
  for (const OwnedPart& part : owned_parts(stage, samples, samples_)) {
    const bool here = stage.devices[static_cast<std::size_t>(part.replica)] == device_;
    result.push_back(
        {replica_samples(stage, part.replica, part.micro_batch, samples_), part.samples, here});
  }
  return result;
}

// `here(task)` is the whole tensor of a task of the other stage on this rank.
template <typename Here>
at::Tensor RankValues::gather(StageId other, EdgeId edge, Direction direction, TensorId tensor,
                              SampleRange samples, Here here) const {
  if (!is_here(other)) return mailbox_.received(edge, direction, tensor, samples);
  std::vector<at::Tensor> pieces;
  for (const Part& part : parts(other, samples)) {
    pieces.push_back(
        part.here ? here(part.task).narrow(0, part.samples.lo - part.task.lo, part.samples.size())
                  : mailbox_.received(edge, direction, tensor, part.samples));
  }
  return pieces.size() == 1 ? pieces[0] : at::cat(pieces, 0);
}

at::Tensor RankValues::input(EdgeId edge, TensorId tensor, SampleRange samples) const {
  const StageId from = plan_.edge(edge).from;
  return gather(from, edge, Direction::kForward, tensor, samples, [&](SampleRange task) {
    return runners_[from.index()]->output(task, tensor).detach();
  });
}

at::Tensor RankValues::gradient(EdgeId edge, TensorId tensor, SampleRange samples) const {
  const StageId to = plan_.edge(edge).to;
  return gather(to, edge, Direction::kBackward, tensor, samples, [&](SampleRange task) {
    const auto at = gradients_.find({edge, task, tensor});
    GP_CHECK(at != gradients_.end(), "gradient of tensor {} for samples [{},{}) is not there",
             tensor.value, task.lo, task.hi);
    if (at->second.values.defined()) return at->second.values;
    std::vector<std::int64_t> sizes = {task.size()};
    const Tensor& type = graph_.tensor(tensor);
    sizes.insert(sizes.end(), type.shape.begin(), type.shape.end());
    return at::zeros(sizes, scalar_type(type.dtype));
  });
}

bool RankValues::is_read_here(StageId stage) const {
  for (const StageEdge& edge : plan_.edges) {
    if (edge.from == stage && !edge.tensors.empty() && is_here(edge.to)) return true;
  }
  return false;
}

void RankValues::keep_gradients(StageId stage, SampleRange task) {
  for (std::size_t e = 0; e < plan_.edges.size(); ++e) {
    const StageEdge& edge = plan_.edges[e];
    if (edge.to != stage || !edge.gradient || !is_here(edge.from)) continue;
    std::int64_t last_read = -1;
    for (const Part& part : parts(edge.from, task)) {
      if (part.here) last_read = part.samples.hi;
    }
    if (last_read < 0) continue;
    for (const TensorId tensor : mailbox_.layout(EdgeId(e), Direction::kBackward).tensors()) {
      gradients_[{EdgeId(e), task, tensor}] = {
          runners_[stage.index()]->input_gradient(task, tensor), last_read};
    }
  }
}

// Backwards go through the samples upwards.
void RankValues::drop_gradients(StageId stage, SampleRange task) {
  std::erase_if(gradients_, [&](const auto& kept) {
    const EdgeId edge = std::get<EdgeId>(kept.first);
    return plan_.edge(edge).from == stage && kept.second.last_read <= task.hi;
  });
}

void RankValues::finish() const {
  GP_CHECK(gradients_.empty(), "{} gradients are left at the end of a run", gradients_.size());
}

}  // namespace graphpipe

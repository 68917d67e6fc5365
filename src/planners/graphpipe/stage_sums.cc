#include "planners/graphpipe/stage_sums.h"

#include <algorithm>

#include "base/numbers.h"

namespace graphpipe {

StageAccumulator::StageAccumulator(const Pieces& pieces)
    : pieces_(pieces),
      is_member_(pieces.positions.size(), 0),
      readers_(pieces.tensors.size(), 0),
      readers_between_(pieces.tensors.size(), 0),
      inward_between_(pieces.tensors.size(), 0),
      holders_(pieces.params.size(), 0) {}

void StageAccumulator::add(Span span) {
  for (int p = span.begin; p < span.end; ++p) add(p);
}

void StageAccumulator::add(int position) {
  const PositionInfo& info = pieces_.positions[at(position)];
  for (const TensorUse& use : info.inputs) read(use);
  for (const int tensor : info.outputs) make(tensor);
  for (const int param : info.params) {
    const int all = pieces_.param_holders[at(param)];
    const int here = ++holders_[at(param)];
    if (all > 1) sums_.tied_params += (here == 1 ? 1 : 0) - (here == all ? 1 : 0);
    if (here > 1) continue;
    const ParamMemory& memory = pieces_.params[at(param)];
    sums_.static_bytes += memory.weight_bytes + memory.gradient_bytes + memory.optimizer_bytes;
    sums_.step_bytes = std::max(sums_.step_bytes, memory.step_bytes);
    sums_.gradient_bytes += memory.gradient_bytes;
    sums_.largest_gradient_bytes = std::max(sums_.largest_gradient_bytes, memory.gradient_bytes);
  }
  is_member_[at(position)] = 1;
  members_.push_back(position);
}

// `times` is 1 or -1.
void StageAccumulator::count_message(const TensorSize& tensor, std::int64_t times,
                                     std::int64_t between) {
  const std::int64_t directions = tensor.gradient ? 2 : 1;
  sums_.messages.add(tensor, directions * times);
  sums_.messages_between.add(tensor, directions * between);
  sums_.message_count += directions * times;
  sums_.message_count_between += directions * between;
}

// A tensor from outside begins (times 1) or ceases (-1) to be one.
void StageAccumulator::count_inward(int t, std::int64_t times) {
  const TensorSize& tensor = pieces_.tensors[at(t)];
  sums_.saved.add(tensor, times);
  sums_.inputs.add(tensor, times);
  if (tensor.producer < 0) return;
  sums_.crossing += static_cast<int>(times);
  sums_.in.add(tensor, times);
  if (tensor.gradient) sums_.out.add(tensor, times);
  count_message(tensor, times, times * inward_between_[at(t)]);
}

void StageAccumulator::read(const TensorUse& use) {
  const TensorSize& tensor = pieces_.tensors[at(use.tensor)];
  const bool first = readers_[at(use.tensor)]++ == 0;
  readers_between_[at(use.tensor)] += use.between;
  if (tensor.producer < 0 || !is_member_[at(tensor.producer)]) {
    if (!first) return;
    inward_between_[at(use.tensor)] = use.between;
    count_inward(use.tensor, 1);
    return;
  }
  count_message(tensor, -1, -use.between);
  if (readers_[at(use.tensor)] < tensor.consumers) return;
  --sums_.crossing;
  if (!tensor.stays) sums_.saved.add(tensor, -1);
  sums_.out.add(tensor, -1);
  if (tensor.gradient) sums_.in.add(tensor, -1);
}

void StageAccumulator::make(int t) {
  const TensorSize& tensor = pieces_.tensors[at(t)];
  if (readers_[at(t)] > 0) count_inward(t, -1);
  if (tensor.gradient) ++sums_.with_gradient;
  const int outside = tensor.consumers - readers_[at(t)];
  if (tensor.stays || outside > 0) sums_.saved.add(tensor, 1);
  if (outside == 0) return;
  ++sums_.crossing;
  sums_.out.add(tensor, 1);
  if (tensor.gradient) sums_.in.add(tensor, 1);
  count_message(tensor, outside, tensor.between - readers_between_[at(t)]);
}

void StageAccumulator::clear() {
  for (const int position : members_) {
    const PositionInfo& info = pieces_.positions[at(position)];
    is_member_[at(position)] = 0;
    for (const TensorUse& use : info.inputs) {
      readers_[at(use.tensor)] = 0;
      readers_between_[at(use.tensor)] = 0;
    }
    for (const int param : info.params) holders_[at(param)] = 0;
  }
  members_.clear();
  sums_ = {};
}

}  // namespace graphpipe

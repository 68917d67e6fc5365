#include "runtime/stand_in_stage.h"

#include <ATen/ops/empty.h>

#include "base/error.h"

namespace graphpipe {
namespace {

const std::vector<std::int64_t> kNoElements = {0};

void check_samples(const at::Tensor& values, SampleRange samples) {
  GP_CHECK(values.size(0) == samples.size(), "{} samples came for [{},{})", values.size(0),
           samples.lo, samples.hi);
}

}  // namespace

Graph stand_in_graph(const Graph& graph) {
  Graph result = graph;
  for (Tensor& tensor : result.tensors) tensor.shape = kNoElements;
  for (Parameter& param : result.params) {
    param.shape = kNoElements;
    param.init = {};
    param.values.reset();
    if (!is_floating(param.dtype)) param.dtype = DType::kFloat32;
  }
  return result;
}

StandInStage::StandInStage(const Graph& graph, const Plan& plan, StageId stage)
    : StageWork(graph, plan, stage), graph_(graph) {}

StandInStage::Task& StandInStage::task(SampleRange samples, State expected) {
  const auto at = tasks_.find(samples);
  GP_CHECK(at != tasks_.end() && at->second.state == expected,
           "samples [{},{}) are not at the point where this task may run", samples.lo, samples.hi);
  return at->second;
}

void StandInStage::make_results(Task& task, SampleRange samples) const {
  const auto make = [&](TensorId tensor) {
    task.results[tensor] = at::empty({samples.size(), 0}, scalar_type(graph_.tensor(tensor).dtype));
  };
  for (const StageOutput& output : outputs()) make(output.tensor);
  for (const TensorId tensor : watched()) make(tensor);
}

void StandInStage::forward(SampleRange samples, std::vector<at::Tensor> values, const OpContext&,
                           Keep keep) {
  GP_CHECK(values.size() == inputs().size(), "{} inputs, expected {}", values.size(),
           inputs().size());
  for (const at::Tensor& value : values) check_samples(value, samples);
  const auto [at, is_new] = tasks_.try_emplace(samples);
  GP_CHECK(is_new, "samples [{},{}) run forward twice", samples.lo, samples.hi);
  at->second.state = keep == Keep::kAll ? State::kRun : State::kInputsKept;
  make_results(at->second, samples);
}

void StandInStage::recompute(SampleRange samples, const OpContext&) {
  Task& again = task(samples, State::kInputsKept);
  again.state = State::kRun;
  make_results(again, samples);
}

void StandInStage::drop_results(SampleRange samples) { tasks_.at(samples).results.clear(); }

void StandInStage::backward_input(SampleRange samples, const Gradients& gradients,
                                  std::int64_t /*mini_batch_samples*/) {
  GP_CHECK(gradients.size() == outputs().size(), "gradients of {} outputs, expected {}",
           gradients.size(), outputs().size());
  for (const std::vector<at::Tensor>& parts : gradients) {
    for (const at::Tensor& part : parts) check_samples(part, samples);
  }
  task(samples, State::kRun).state = State::kInputsDone;
  drop_results(samples);
}

void StandInStage::backward_weight(SampleRange samples) {
  task(samples, State::kInputsDone).state = State::kDone;
}

void StandInStage::backward(SampleRange samples, const Gradients& gradients,
                            std::int64_t mini_batch_samples,
                            const std::vector<BackwardPoint>& points) {
  for (const BackwardPoint& point : points) point.reached();
  backward_input(samples, gradients, mini_batch_samples);
  backward_weight(samples);
}

const at::Tensor& StandInStage::result(SampleRange samples, TensorId tensor) const {
  const std::map<TensorId, at::Tensor>& results = tasks_.at(samples).results;
  const auto at = results.find(tensor);
  GP_CHECK(at != results.end(), "tensor {} of samples [{},{}) is not there", tensor.value,
           samples.lo, samples.hi);
  return at->second;
}

const at::Tensor& StandInStage::output(SampleRange samples, TensorId tensor) const {
  return result(samples, tensor);
}

const at::Tensor& StandInStage::watched_value(SampleRange samples, std::size_t i) const {
  return result(samples, watched()[i]);
}

// Whoever reads it takes zeros, of which there are none.
at::Tensor StandInStage::input_gradient(SampleRange, TensorId) const { return {}; }

void StandInStage::free(SampleRange samples) {
  const auto erased = tasks_.erase(samples);
  GP_CHECK(erased == 1, "samples [{},{}) have no value to be freed", samples.lo, samples.hi);
}

}  // namespace graphpipe

// A stage whose tasks compute nothing: for runs in which time is only modelled. Values are
// stand-ins, tensors of the right number of samples without elements, so that everything
// else of a run - messages, sums over ranks, what is kept and for how long - is what it is
// in training. Checks that tasks come in an order in which they could be computed.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/stage_work.h"

namespace graphpipe {

// The graph with every tensor and parameter without elements.
Graph stand_in_graph(const Graph& graph);

class StandInStage final : public StageWork {
 public:
  // `graph` is a stand_in_graph(), and outlives the runner.
  StandInStage(const Graph& graph, const Plan& plan, StageId stage);

  void forward(SampleRange samples, std::vector<at::Tensor> values, const OpContext& context,
               Keep keep) override;
  void use_params(const std::vector<at::Tensor>& /*params*/) override {}
  void recompute(SampleRange samples, const OpContext& context) override;
  void drop_results(SampleRange samples) override;
  void backward(SampleRange samples, const Gradients& gradients, std::int64_t mini_batch_samples,
                const std::vector<BackwardPoint>& points) override;
  void backward_input(SampleRange samples, const Gradients& gradients,
                      std::int64_t mini_batch_samples) override;
  void backward_weight(SampleRange samples) override;
  const at::Tensor& output(SampleRange samples, TensorId tensor) const override;
  const at::Tensor& watched_value(SampleRange samples, std::size_t i) const override;
  at::Tensor input_gradient(SampleRange samples, TensorId tensor) const override;
  void free(SampleRange samples) override;
  bool holds_values() const override { return !tasks_.empty(); }

 private:
  enum class State { kRun, kInputsKept, kInputsDone, kDone };  // kInputsDone: of the halves
  struct Task {
    State state = State::kRun;
    std::map<TensorId, at::Tensor> results;  // outputs and watched; empty: dropped
  };
  Task& task(SampleRange samples, State expected);
  const at::Tensor& result(SampleRange samples, TensorId tensor) const;
  void make_results(Task& task, SampleRange samples) const;

  const Graph& graph_;
  std::map<SampleRange, Task> tasks_;
};

}  // namespace graphpipe

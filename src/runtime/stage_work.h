// Runs one stage's tasks over micro-batches: forwards, and backwards from the gradients of
// what left the stage. It knows nothing of ranks, messages and data sets; rank_executor.cc
// brings the inputs and takes the outputs. stage_runner.h computes, stand_in_stage.h only keeps
// account.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"
#include "runtime/operators.h"
#include "schedule/schedule.h"

namespace graphpipe {

// A tensor that the stage reads and does not make.
struct StageInput {
  TensorId tensor;
  EdgeId edge;            // the edge that brings it; none: an input of the graph
  bool gradient = false;  // its gradient goes back over the edge
};

// A tensor that leaves the stage.
struct StageOutput {
  TensorId tensor;
  std::vector<EdgeId> gradient_edges;  // those that bring a gradient of it, ascending
};

// What happens within a backward.
struct BackwardPoint {
  OpId after;  // once the gradients of this operator's parameters, and of later ones', are there
  std::function<void()> reached;
};

class StageWork {
 public:
  virtual ~StageWork() = default;
  StageWork(const StageWork&) = delete;
  StageWork& operator=(const StageWork&) = delete;

  const std::vector<StageInput>& inputs() const { return inputs_; }
  const std::vector<StageOutput>& outputs() const { return outputs_; }

  // The stage's losses and metrics, ascending.
  const std::vector<TensorId>& watched() const { return watched_; }

  enum class Keep {
    kAll,     // what the backward and the sends need
    kInputs,  // for a forward that is run again, and the results until drop_results()
  };
  // values: as inputs(), each (samples, ...), fresh tensors. What is kept is kept until free().
  virtual void forward(SampleRange samples, std::vector<at::Tensor> values,
                       const OpContext& context, Keep keep) = 0;
  // Forwards from now on compute with these, [parameter of the graph], as their constructors' do.
  virtual void use_params(const std::vector<at::Tensor>& params) = 0;
  // The forward again, from the inputs that were kept: the same bits, recorded this time.
  virtual void recompute(SampleRange samples, const OpContext& context) = 0;
  // Outputs and watched values: after them only a recompute or a backward makes sense.
  virtual void drop_results(SampleRange samples) = 0;

  // gradients: as outputs(), of each those that came back, which are added in this order;
  // none where no consumer answers. Losses of the stage add their seeds:
  // for a mean over samples weight / mini_batch_samples each, for a sum weight. Gradients of
  // parameters are added to their .grad. Points are reached in their order, in which their
  // operators must not ascend; throws what one throws, when the backward has ended.
  using Gradients = std::vector<std::vector<at::Tensor>>;
  virtual void backward(SampleRange samples, const Gradients& gradients,
                        std::int64_t mini_batch_samples,
                        const std::vector<BackwardPoint>& points) = 0;

  // The same in halves, the inputs' gradients first.
  virtual void backward_input(SampleRange samples, const Gradients& gradients,
                              std::int64_t mini_batch_samples) = 0;
  virtual void backward_weight(SampleRange samples) = 0;

  // Of a forward that is not freed; outputs and watched values until its backward.
  // input_gradient is undefined where no gradient reached it.
  virtual const at::Tensor& output(SampleRange samples, TensorId tensor) const = 0;
  virtual const at::Tensor& watched_value(SampleRange samples, std::size_t i) const = 0;
  virtual at::Tensor input_gradient(SampleRange samples, TensorId tensor) const = 0;

  // GP_CHECKs that the value is there.
  virtual void free(SampleRange samples) = 0;
  virtual bool holds_values() const = 0;

 protected:
  StageWork(const Graph& graph, const Plan& plan, StageId stage);

 private:
  void find_inputs_and_outputs(const Graph& graph, const Plan& plan, StageId stage);
  void find_watched(const Graph& graph, const std::vector<OpId>& ops);

  std::vector<StageInput> inputs_;
  std::vector<StageOutput> outputs_;
  std::vector<TensorId> watched_;
};

}  // namespace graphpipe

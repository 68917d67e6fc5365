// Runs one stage's operators over micro-batches: forward under autograd, backward from
// the gradients of what left the stage and from the losses within it. It knows nothing of
// ranks, messages and data sets; rank_trainer.cc brings the inputs and takes the outputs.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"
#include "runtime/operator_tape.h"
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

class StageRunner {
 public:
  // params: [parameter of the graph]; those of the stage's operators are defined. What the
  // references name must outlive the runner. `in_halves`: its backwards come as
  // backward_input() and backward_weight().
  StageRunner(const Graph& graph, const Plan& plan, StageId stage,
              const std::vector<at::Tensor>& params, bool in_halves = false);

  const std::vector<StageInput>& inputs() const { return inputs_; }
  const std::vector<StageOutput>& outputs() const { return outputs_; }

  // The stage's losses and metrics, ascending.
  const std::vector<TensorId>& watched() const { return watched_; }

  enum class Keep {
    kAll,     // what the backward and the sends need
    kInputs,  // for a forward that is run again, and the results until drop_results()
  };
  // values: as inputs(), each (samples, ...), fresh tensors. What is kept is kept until free().
  void forward(SampleRange samples, std::vector<at::Tensor> values, const OpContext& context,
               Keep keep = Keep::kAll);
  // The forward again, from the inputs that were kept: the same bits, recorded this time.
  void recompute(SampleRange samples, const OpContext& context);
  // Outputs and watched values: after them only a recompute or a backward makes sense.
  void drop_results(SampleRange samples);

  // gradients: as outputs(), of each those that came back, which are added in this order;
  // none where no consumer answers. Losses of the stage add their seeds:
  // for a mean over samples weight / mini_batch_samples each, for a sum weight. Gradients of
  // parameters are added to their .grad. Points are reached in their order, in which their
  // operators must not ascend; throws what one throws, when the backward has ended.
  void backward(SampleRange samples, const std::vector<std::vector<at::Tensor>>& gradients,
                std::int64_t mini_batch_samples, const std::vector<BackwardPoint>& points = {});

  // The same in halves, the inputs' gradients first.
  void backward_input(SampleRange samples, const std::vector<std::vector<at::Tensor>>& gradients,
                      std::int64_t mini_batch_samples);
  void backward_weight(SampleRange samples);

  // Of a forward that is not freed; outputs and watched values until its backward.
  // input_gradient is undefined where no gradient reached it.
  const at::Tensor& output(SampleRange samples, TensorId tensor) const;
  const at::Tensor& watched_value(SampleRange samples, std::size_t i) const;
  at::Tensor input_gradient(SampleRange samples, TensorId tensor) const;

  // GP_CHECKs that the value is there.
  void free(SampleRange samples);
  bool holds_values() const { return !tasks_.empty(); }

 private:
  // What is kept of a forward, beside what autograd keeps.
  struct Task {
    std::vector<at::Tensor> inputs;   // as inputs_, to the backward; undefined where nothing
                                      // asks for them again
    std::vector<at::Tensor> outputs;  // as outputs_
    std::vector<at::Tensor> watched;  // as watched_
    OperatorTape tape;                // where the backward comes in halves
    std::vector<at::Tensor> input_gradients;  // from the backward on, as inputs_
  };
  // An operator with its tensors as slots of a forward's table.
  struct Step {
    OpId id;
    const Operator* op = nullptr;
    std::vector<std::size_t> inputs;
    std::vector<std::size_t> outputs;
    std::vector<std::size_t> last_uses;  // slots that nothing reads from here on
    std::vector<at::Tensor> params;
    std::vector<at::Tensor> trained;  // of these
    bool recorded = false;            // a gradient flows into an output
  };
  struct StageLoss {
    std::size_t watched = 0;
    Loss loss;
  };

  void find_inputs_and_outputs(const Plan& plan, StageId stage, const std::vector<bool>& needs);
  void find_watched();
  void make_steps(const std::vector<OpId>& ops, const std::vector<bool>& needs,
                  const std::vector<at::Tensor>& params);

  void run_operators(Task& task, const OpContext& context, bool recorded);

  std::vector<at::Tensor> run_operator(const Step& step, const std::vector<at::Tensor>& inputs,
                                       Task& task, const OpContext& context, bool recorded);
  std::vector<at::Tensor> completed_params(OpId after) const;
  at::Tensor loss_seed(const StageLoss& loss, const at::Tensor& values,
                       std::int64_t mini_batch_samples) const;

  const Graph& graph_;
  const bool in_halves_;
  std::vector<StageInput> inputs_;
  std::vector<StageOutput> outputs_;
  std::vector<TensorId> watched_;
  std::vector<StageLoss> losses_;
  std::vector<Step> steps_;
  std::vector<TensorId> slots_;  // tensors of the stage: inputs first, then as they are made
  std::vector<std::size_t> output_slots_;
  std::vector<std::size_t> watched_slots_;
  std::map<SampleRange, Task> tasks_;
};

}  // namespace graphpipe

// Runs one stage's operators over micro-batches: forward under autograd, backward from
// the gradients of what left the stage and from the losses within it. It knows nothing of
// ranks, messages and data sets; rank_trainer.cc brings the inputs and takes the outputs.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"
#include "runtime/operator_tape.h"
#include "runtime/operators.h"
#include "runtime/stage_work.h"
#include "schedule/schedule.h"

namespace graphpipe {

class StageRunner final : public StageWork {
 public:
  // params: [parameter of the graph]; those of the stage's operators are defined. What the
  // references name must outlive the runner. `in_halves`: its backwards come as
  // backward_input() and backward_weight().
  StageRunner(const Graph& graph, const Plan& plan, StageId stage,
              const std::vector<at::Tensor>& params, bool in_halves = false);

  void forward(SampleRange samples, std::vector<at::Tensor> values, const OpContext& context,
               Keep keep) override;
  void use_params(const std::vector<at::Tensor>& params) override;
  void recompute(SampleRange samples, const OpContext& context) override;
  void drop_results(SampleRange samples) override;
  void backward(SampleRange samples, const std::vector<std::vector<at::Tensor>>& gradients,
                std::int64_t mini_batch_samples, const std::vector<BackwardPoint>& points) override;
  void backward_input(SampleRange samples, const std::vector<std::vector<at::Tensor>>& gradients,
                      std::int64_t mini_batch_samples) override;
  void backward_weight(SampleRange samples) override;
  const at::Tensor& output(SampleRange samples, TensorId tensor) const override;
  const at::Tensor& watched_value(SampleRange samples, std::size_t i) const override;
  at::Tensor input_gradient(SampleRange samples, TensorId tensor) const override;
  void free(SampleRange samples) override;
  bool holds_values() const override { return !tasks_.empty(); }

 private:
  // What is kept of a forward, beside what autograd keeps.
  struct Task {
    std::vector<at::Tensor> inputs;   // as inputs(), to the backward; undefined where nothing
                                      // asks for them again
    std::vector<at::Tensor> outputs;  // as outputs()
    std::vector<at::Tensor> watched;  // as watched()
    OperatorTape tape;                // where the backward comes in halves
    std::vector<at::Tensor> input_gradients;  // from the backward on, as inputs()
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

  void find_losses();
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
  std::vector<StageLoss> losses_;
  std::vector<Step> steps_;
  std::vector<TensorId> slots_;  // tensors of the stage: inputs first, then as they are made
  std::vector<std::size_t> output_slots_;
  std::vector<std::size_t> watched_slots_;
  std::map<SampleRange, Task> tasks_;
};

}  // namespace graphpipe

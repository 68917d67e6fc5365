#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "runtime/clock.h"
#include "runtime/counting_allocator.h"
#include "runtime/operators.h"
#include "runtime/profiler.h"

namespace graphpipe {
namespace {

// What n copies of an operator may keep while they wait for their backward.
constexpr std::int64_t kMostKeptBytes = 64 << 20;
constexpr std::int64_t kMostCopies = 1000;

// One more than the largest whole number that the operator takes as an input.
std::int64_t integer_bound(const Graph& graph, const Operator& op) {
  if (op.kind == OpKind::kEmbedding || op.kind == OpKind::kEmbeddingBag) {
    return graph.param(op.params.front()).shape.front();
  }
  if (op.kind == OpKind::kCrossEntropy || op.kind == OpKind::kCorrect) {
    return graph.tensor(op.inputs.front()).shape.back();
  }
  if (op.kind == OpKind::kGather) {
    const std::int64_t data = op.list("operands").front();
    const std::vector<std::int64_t>& shape =
        data >= 0 ? graph.tensor(op.inputs[static_cast<std::size_t>(data)]).shape
                  : graph.param(op.params[static_cast<std::size_t>(-(data + 1))]).shape;
    return shape[static_cast<std::size_t>(op.integer("axis"))];
  }
  return 2;
}

// An operator with inputs and parameters of its own.
class OpBench {
 public:
  OpBench(const Graph& graph, OpId id, std::int64_t samples)
      : graph_(graph), op_(graph.op(id)), samples_(samples), sample_ids_(samples) {
    std::iota(sample_ids_.begin(), sample_ids_.end(), 0);
    const std::vector<bool> needs = needs_gradient(graph);
    for (std::size_t i = 0; i < op_.inputs.size(); ++i) {
      inputs_.push_back(random_input(i));
      input_needs_.push_back(needs[op_.inputs[i].index()]);
    }
    for (const ParamId id_of_param : op_.params) {
      const Parameter& param = graph.param(id_of_param);
      const at::ScalarType type = scalar_type(param.dtype);
      at::Tensor values = is_floating(param.dtype)
                              ? at::randn(param.shape, type).mul_(0.1)
                              : at::randint(integer_bound(graph, op_), param.shape, type);
      values.set_requires_grad(param.trainable);
      params_.push_back(std::move(values));
    }
    recorded_ = has_backward(op_, needs);
  }

  // Copies of the forward, kept for a backward.
  struct Kept {
    std::vector<std::vector<at::Tensor>> inputs;
    std::vector<at::Tensor> outputs;
  };

  Kept forward(std::int64_t copies) const {
    const at::AutoGradMode mode(recorded_);
    const OpContext context{.training = true, .seed = 1, .iteration = 0, .sample_ids = sample_ids_};
    Kept kept;
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      std::vector<at::Tensor> leaves;
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        // Shares the values, has a gradient of its own.
        leaves.push_back(inputs_[i].detach().set_requires_grad(recorded_ && input_needs_[i]));
      }
      for (at::Tensor& output : forward_op(graph_, op_, leaves, params_, context)) {
        kept.outputs.push_back(std::move(output));
      }
      kept.inputs.push_back(std::move(leaves));
    }
    return kept;
  }

  // All copies in one call, as the backward of a stage is one call: what a call costs by
  // itself is no operator's.
  void backward(const Kept& kept, const std::vector<at::Tensor>& gradients) const {
    if (recorded_) torch::autograd::backward(kept.outputs, gradients);
  }

  std::vector<at::Tensor> output_gradients(const Kept& kept) const {
    std::vector<at::Tensor> gradients;
    if (!recorded_) return gradients;
    for (const at::Tensor& output : kept.outputs)
      gradients.push_back(at::ones_like(output.detach()));
    return gradients;
  }

  // Bytes of the outputs that are memory of their own (a reshape's is its input's).
  std::int64_t output_bytes(const Kept& kept) const {
    std::int64_t bytes = 0;
    for (const at::Tensor& output : kept.outputs) {
      const bool aliased = std::any_of(
          inputs_.begin(), inputs_.end(),
          [&](const at::Tensor& input) { return input.storage().is_alias_of(output.storage()); });
      if (!aliased) bytes += static_cast<std::int64_t>(output.nbytes());
    }
    return bytes;
  }

 private:
  at::Tensor random_input(std::size_t i) const {
    const Tensor& tensor = graph_.tensor(op_.inputs[i]);
    std::vector<std::int64_t> sizes;
    if (tensor.batched) sizes.push_back(samples_);
    sizes.insert(sizes.end(), tensor.shape.begin(), tensor.shape.end());
    const at::ScalarType type = scalar_type(tensor.dtype);
    // Targets of a binary cross-entropy are shares.
    if (op_.kind == OpKind::kBinaryCrossEntropy && i == 1) return at::rand(sizes, type);
    if (is_floating(tensor.dtype)) return at::randn(sizes, type);
    return at::randint(integer_bound(graph_, op_), sizes, type);
  }

  const Graph& graph_;
  const Operator& op_;
  std::int64_t samples_;
  std::vector<std::int64_t> sample_ids_;
  std::vector<at::Tensor> inputs_;
  std::vector<bool> input_needs_;
  std::vector<at::Tensor> params_;
  bool recorded_ = false;
};

// The second of two passes: gradients of parameters are there from the first on.
void measure_bytes(const OpBench& bench, ProfilePoint& point) {
  for (int pass = 0; pass < 2; ++pass) {
    const std::int64_t before = live_tensor_bytes();
    reset_peak_tensor_bytes();
    const OpBench::Kept kept = bench.forward(1);
    const std::int64_t kept_bytes = live_tensor_bytes() - before;
    const std::int64_t forward_peak = peak_tensor_bytes() - before;
    point.saved_bytes = std::max<std::int64_t>(0, kept_bytes - bench.output_bytes(kept));

    const std::vector<at::Tensor> gradients = bench.output_gradients(kept);
    const std::int64_t before_backward = live_tensor_bytes();
    reset_peak_tensor_bytes();
    bench.backward(kept, gradients);
    const std::int64_t backward_peak = peak_tensor_bytes() - before_backward;
    point.workspace_bytes = std::max({std::int64_t{0}, forward_peak - kept_bytes, backward_peak});
  }
}

struct OpSeconds {
  double forward_s = 0;
  double backward_s = 0;
};

OpSeconds time_copies(const OpBench& bench, std::int64_t copies) {
  const double start_s = thread_cpu_s();
  const OpBench::Kept kept = bench.forward(copies);
  const double forward_s = thread_cpu_s() - start_s;
  const std::vector<at::Tensor> gradients = bench.output_gradients(kept);
  const double backward_start_s = thread_cpu_s();
  bench.backward(kept, gradients);
  const double backward_s = thread_cpu_s() - backward_start_s;
  const auto n = static_cast<double>(copies);
  return {forward_s / n, gradients.empty() ? 0 : backward_s / n};
}

std::int64_t copies_for(const OpBench& bench, double least_s, std::int64_t bytes_per_copy) {
  const OpSeconds once = time_copies(bench, 1);
  const double wanted = std::ceil(least_s / std::max(once.forward_s, 1e-9));
  const std::int64_t fitting = kMostKeptBytes / std::max<std::int64_t>(bytes_per_copy, 1);
  return std::clamp(static_cast<std::int64_t>(std::min(wanted, 1e9)), std::int64_t{1},
                    std::max<std::int64_t>(1, std::min(fitting, kMostCopies)));
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

ProfilePoint measure_op(const Graph& graph, OpId op, std::int64_t samples, int repeats,
                        double least_s) {
  at::manual_seed(1);
  const OpBench bench(graph, op, samples);
  ProfilePoint point;
  point.samples = samples;
  measure_bytes(bench, point);  // and fills caches
  std::int64_t output_bytes = 0;
  for (const TensorId tensor : graph.op(op).outputs) {
    output_bytes += tensor_bytes(graph.tensor(tensor), samples);
  }
  for (const TensorId tensor : graph.op(op).inputs) {
    output_bytes += tensor_bytes(graph.tensor(tensor), samples);  // their gradients
  }
  const std::int64_t copies = copies_for(bench, least_s, output_bytes + point.saved_bytes);
  std::vector<double> forward_s;
  std::vector<double> backward_s;
  for (int i = 0; i < repeats; ++i) {
    const OpSeconds seconds = time_copies(bench, copies);
    forward_s.push_back(seconds.forward_s);
    backward_s.push_back(seconds.backward_s);
  }
  point.forward_s = std::max(median(forward_s), 1e-9);  // a clock's tick at least
  point.backward_s = median(backward_s);
  return point;
}

}  // namespace graphpipe

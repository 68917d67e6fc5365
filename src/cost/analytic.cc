// The frozen analytic model; see analytic.h for the formulas.
//
// Symbols: r  share of the efficient peak that a product's tiles and waves leave
//          T  tiles;  P  multiprocessors;  e  relative efficiency of a tile size
//          B  samples;  S  sequence;  C  channels;  h  heads

#include "cost/analytic.h"

#include <algorithm>

#include "base/divide_up.h"
#include "base/error.h"
#include "cost/kept_tensors.h"
#include "graph/custom_op.h"
#include "graph/functions.h"

namespace graphpipe {
namespace {

struct Tile {
  std::int64_t rows;
  std::int64_t columns;
  double efficiency;
};

// NVIDIA, "Matrix Multiplication Background User's Guide", section on tile quantisation and
// tile efficiency: smaller tiles reuse less data. The three values are the frozen ones.
constexpr Tile kTiles[] = {{128, 128, 1.0}, {128, 64, 0.85}, {64, 64, 0.7}};

// `problems` equal products (rows x inner) * (inner x columns), run as one kernel.
struct Product {
  std::int64_t problems = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t inner = 0;
  double flops() const {
    return 2.0 * static_cast<double>(problems) * static_cast<double>(rows) *
           static_cast<double>(columns) * static_cast<double>(inner);
  }
};

// A CPU core (one multiprocessor) works in register tiles of a few numbers: no such loss.
double tile_share(const Product& product, int multiprocessors) {
  if (multiprocessors <= 1) return 1;
  const double elements = static_cast<double>(product.problems) *
                          static_cast<double>(product.rows) * static_cast<double>(product.columns);
  double best = 0;
  for (const Tile& tile : kTiles) {
    const std::int64_t tiles = product.problems * divide_up(product.rows, tile.rows) *
                               divide_up(product.columns, tile.columns);
    // r = e * elements / (T * area) * T / (P ceil(T / P)); T cancels.
    const std::int64_t slots = multiprocessors * divide_up(tiles, multiprocessors);
    best = std::max(
        best, tile.efficiency * elements /
                  (static_cast<double>(slots) * static_cast<double>(tile.rows * tile.columns)));
  }
  return best;
}

std::int64_t units_of(const Graph& graph, const Operator& op, std::int64_t samples) {
  return graph.tensor(op.outputs.front()).batched ? samples : 1;
}

std::int64_t floating_bytes(const Graph& graph, const Operator& op) {
  return dtype_bytes(graph.tensor(op.outputs.front()).dtype);
}

struct AttentionSizes {
  std::int64_t B, S, C, h;
};

AttentionSizes attention_sizes(const Graph& graph, const Operator& op, std::int64_t samples) {
  const std::vector<std::int64_t>& x = graph.tensor(op.inputs.front()).shape;
  return {units_of(graph, op, samples), x[0], x[1], op.integer("heads")};
}

// FLOPs / r, summed over the operator's products: what the peak has to deliver.
double linear_work(const Graph& graph, const Operator& op, std::int64_t samples,
                   int multiprocessors) {
  const std::vector<std::int64_t>& weight = graph.param(op.params.front()).shape;  // (out, in)
  const Tensor& y = graph.tensor(op.outputs.front());
  const std::int64_t rows = units_of(graph, op, samples) * (element_count(y.shape) / weight[0]);
  const Product product{1, rows, weight[0], weight[1]};
  return product.flops() / tile_share(product, multiprocessors);
}

double matmul_work(const Graph& graph, const Operator& op, std::int64_t samples,
                   int multiprocessors) {
  const Tensor& a = graph.tensor(op.inputs[0]);
  const Tensor& b = graph.tensor(op.inputs[1]);
  const std::vector<std::int64_t>& y = graph.tensor(op.outputs.front()).shape;
  const std::int64_t columns = y.back();
  const std::int64_t rows = units_of(graph, op, samples) * (element_count(y) / columns);
  const bool shared_b = !b.batched && b.shape.size() == 2;
  const std::int64_t m = y[y.size() - 2];
  const Product product = shared_b ? Product{1, rows, columns, a.shape.back()}
                                   : Product{rows / m, m, columns, a.shape.back()};
  return product.flops() / tile_share(product, multiprocessors);
}

double attention_work(const AttentionSizes& n, int multiprocessors) {
  const std::int64_t head = n.C / n.h;
  const Product products[] = {{1, n.B * n.S, 3 * n.C, n.C},  // queries, keys, values
                              {n.B * n.h, n.S, n.S, head},   // scores
                              {n.B * n.h, n.S, head, n.S},   // context
                              {1, n.B * n.S, n.C, n.C}};     // out
  double work = 0;
  for (const Product& product : products)
    work += product.flops() / tile_share(product, multiprocessors);
  return work;
}

// A convolution is the product of its windows with its weight, a problem for each group;
// a transposed one is the product that spreads each input over a window.
double convolution_work(const Graph& graph, const Operator& op, std::int64_t samples,
                        int multiprocessors) {
  const std::vector<std::int64_t>& x = graph.tensor(op.inputs.front()).shape;
  const std::vector<std::int64_t>& y = graph.tensor(op.outputs.front()).shape;
  const std::vector<std::int64_t>& weight = graph.param(op.params.front()).shape;
  const std::int64_t groups = op.integer("groups");
  const bool transposed = op.kind == OpKind::kConvTranspose2d;
  const std::vector<std::int64_t>& windows = transposed ? x : y;
  const std::int64_t rows = units_of(graph, op, samples) * (element_count(windows) / windows[0]);
  const std::int64_t inner = element_count(weight) / weight[0];
  const Product product = transposed ? Product{groups, rows, inner, x[0] / groups}
                                     : Product{groups, rows, y[0] / groups, inner};
  // With a channel a group nothing is shared between columns: no product, no tiles.
  const bool depthwise = groups > 1 && groups == x[0];
  return product.flops() / (depthwise ? 1 : tile_share(product, multiprocessors));
}

// The inputs' product is one, the states' one a step, since a step waits for the one before.
double recurrent_work(const Graph& graph, const Operator& op, std::int64_t samples,
                      int multiprocessors) {
  const std::int64_t steps = graph.tensor(op.inputs.front()).shape[0];
  const std::vector<std::int64_t>& w_ih = graph.param(op.params[0]).shape;  // (gates * H, in)
  const std::vector<std::int64_t>& w_hh = graph.param(op.params[1]).shape;  // (gates * H, H)
  const Product inputs{1, samples * steps, w_ih[0], w_ih[1]};
  const Product states{1, samples, w_hh[0], w_hh[1]};
  return inputs.flops() / tile_share(inputs, multiprocessors) +
         static_cast<double>(steps) * states.flops() / tile_share(states, multiprocessors);
}

double forward_work(const Graph& graph, OpId id, std::int64_t samples, int multiprocessors) {
  const Operator& op = graph.op(id);
  switch (op.kind) {
    case OpKind::kLinear:
      return linear_work(graph, op, samples, multiprocessors);
    case OpKind::kMatmul:
      return matmul_work(graph, op, samples, multiprocessors);
    case OpKind::kAttention:
      return attention_work(attention_sizes(graph, op, samples), multiprocessors);
    case OpKind::kConv1d:
    case OpKind::kConv2d:
    case OpKind::kConvTranspose2d:
      return convolution_work(graph, op, samples, multiprocessors);
    case OpKind::kLstm:
    case OpKind::kGru:
      return recurrent_work(graph, op, samples, multiprocessors);
    case OpKind::kLayerNorm:
    case OpKind::kSoftmax:
    case OpKind::kGelu:
    case OpKind::kRelu:
    case OpKind::kSigmoid:
    case OpKind::kTanh:
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kAddParameter:
    case OpKind::kConcat:
    case OpKind::kEmbedding:
    case OpKind::kEmbeddingBag:
    case OpKind::kDropout:
    case OpKind::kReshape:
    case OpKind::kTranspose:
    case OpKind::kSlice:
    case OpKind::kSplit:
    case OpKind::kPad:
    case OpKind::kMean:
    case OpKind::kElementwise:
    case OpKind::kReduce:
    case OpKind::kAlongAxis:
    case OpKind::kGather:
    case OpKind::kExpand:
    case OpKind::kMaxPool2d:
    case OpKind::kAvgPool2d:
    case OpKind::kGlobalAvgPool:
    case OpKind::kResize:
    case OpKind::kBatchNorm:
    case OpKind::kMseLoss:
    case OpKind::kCrossEntropy:
    case OpKind::kBinaryCrossEntropy:
    case OpKind::kCorrect:
    case OpKind::kOpaque:
    case OpKind::kCustom:
      return static_cast<double>(units_of(graph, op, samples)) *
             forward_flops_per_sample(graph, id);
  }
  GP_CHECK(false, "operator {} has no kind", op.name);
  return 0;
}

bool is_loss(OpKind kind) {
  return kind == OpKind::kMseLoss || kind == OpKind::kCrossEntropy ||
         kind == OpKind::kBinaryCrossEntropy;
}

bool is_lookup(OpKind kind) { return kind == OpKind::kEmbedding || kind == OpKind::kEmbeddingBag; }

std::int64_t inputs_bytes(const Graph& graph, const Operator& op, std::int64_t samples,
                          bool floating_only) {
  std::int64_t bytes = 0;
  for (const TensorId in : op.inputs) {
    const Tensor& tensor = graph.tensor(in);
    if (!floating_only || is_floating(tensor.dtype)) bytes += tensor_bytes(tensor, samples);
  }
  return bytes;
}

std::int64_t outputs_bytes(const Graph& graph, const Operator& op, std::int64_t samples) {
  std::int64_t bytes = 0;
  for (const TensorId out : op.outputs) bytes += tensor_bytes(graph.tensor(out), samples);
  return bytes;
}

std::int64_t params_bytes(const Graph& graph, const Operator& op) {
  std::int64_t bytes = 0;
  for (const ParamId param : op.params) bytes += param_bytes(graph.param(param));
  return bytes;
}

// Rows of the table that the samples' ids name, of an embedding or a bag.
std::int64_t looked_up_bytes(const Graph& graph, const Operator& op, std::int64_t samples) {
  const Tensor& ids = graph.tensor(op.inputs.front());
  const Parameter& table = graph.param(op.params.front());
  const std::int64_t units = ids.batched ? samples : 1;
  return units * element_count(ids.shape) * table.shape.back() * dtype_bytes(table.dtype);
}

// Inputs, outputs and parameters, each moved once. A reshape is a view. A lookup moves
// the rows that it names, not the table.
double moved_bytes(const Graph& graph, const Operator& op, std::int64_t samples) {
  if (op.kind == OpKind::kReshape) return 0;
  const std::int64_t params =
      is_lookup(op.kind) ? looked_up_bytes(graph, op, samples) : params_bytes(graph, op);
  return static_cast<double>(inputs_bytes(graph, op, samples, false) +
                             outputs_bytes(graph, op, samples) + params);
}

// Numbers a step and unit of the state that the library's cells keep, by measurement; they
// also copy the input to have the steps first.
constexpr std::int64_t kCellKeeps = 7;

std::int64_t recurrent_saved_bytes(const Graph& graph, const Operator& op, std::int64_t samples) {
  return kCellKeeps * outputs_bytes(graph, op, samples) + inputs_bytes(graph, op, samples, true);
}

// What a forward keeps beyond inputs and outputs; see analytic.h.
std::int64_t extra_saved_bytes(const Graph& graph, const Operator& op, std::int64_t samples,
                               const DeviceType& device) {
  const std::int64_t element = floating_bytes(graph, op);
  switch (op.kind) {
    case OpKind::kAttention: {
      const AttentionSizes n = attention_sizes(graph, op, samples);
      const std::int64_t probabilities = n.B * n.h * n.S * n.S;
      const std::int64_t projections = device.multiprocessors > 1 ? 0 : 4 * n.B * n.S * n.C;
      return element * (probabilities + projections);
    }
    case OpKind::kLayerNorm: {
      const std::int64_t channels = graph.tensor(op.inputs.front()).shape.back();
      return 2 * outputs_bytes(graph, op, samples) / channels;
    }
    case OpKind::kDropout:
      return outputs_bytes(graph, op, samples);
    case OpKind::kMaxPool2d:  // where the largest stood
      return outputs_bytes(graph, op, samples) / element * dtype_bytes(DType::kInt64);
    case OpKind::kBatchNorm:  // mean and deviation a channel
      return 2 * element * graph.tensor(op.inputs.front()).shape[0];
    case OpKind::kLstm:
    case OpKind::kGru:
      return recurrent_saved_bytes(graph, op, samples);
    case OpKind::kEmbeddingBag: {
      // The ids without padding, the bag of each, and three numbers a bag.
      const Tensor& ids = graph.tensor(op.inputs.front());
      return 2 * tensor_bytes(ids, samples) +
             3 * dtype_bytes(ids.dtype) * units_of(graph, op, samples);
    }
    case OpKind::kElementwise:  // steps in between, and an operand that broadcasting copies
      return elementwise_function(op.text("function")).kept * outputs_bytes(graph, op, samples);
    case OpKind::kReduce:  // what stands between the axes, or between two steps
      return op.text("function") == "prod" || op.text("function") == "log_sum"
                 ? inputs_bytes(graph, op, samples, true)
                 : 0;
    case OpKind::kGather:  // indices, one for each element where each sample has its own
      return 2 * dtype_bytes(DType::kInt64) / element * outputs_bytes(graph, op, samples);
    case OpKind::kMseLoss:
    case OpKind::kCrossEntropy:
    case OpKind::kBinaryCrossEntropy:
      return tensor_bytes(graph.tensor(op.inputs.front()), samples);
    case OpKind::kLinear:
    case OpKind::kMatmul:
    case OpKind::kSoftmax:
    case OpKind::kGelu:
    case OpKind::kRelu:
    case OpKind::kSigmoid:
    case OpKind::kTanh:
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kAddParameter:
    case OpKind::kConcat:
    case OpKind::kEmbedding:
    case OpKind::kReshape:
    case OpKind::kTranspose:
    case OpKind::kSlice:
    case OpKind::kSplit:
    case OpKind::kPad:
    case OpKind::kMean:
    case OpKind::kExpand:
    case OpKind::kAlongAxis:
    case OpKind::kConv1d:
    case OpKind::kConv2d:
    case OpKind::kConvTranspose2d:
    case OpKind::kAvgPool2d:
    case OpKind::kGlobalAvgPool:
    case OpKind::kResize:
    case OpKind::kCorrect:
    case OpKind::kOpaque:
    case OpKind::kCustom:
      return 0;
  }
  GP_CHECK(false, "operator {} has no kind", op.name);
  return 0;
}

// Numbers that the library makes tensors of.
constexpr std::int64_t kScalarsBytes = 64;

// Where an image is one pixel, the library takes channels to come last, and brings the weights into
// that order.
std::int64_t reordered_weights_bytes(const Graph& graph, const Operator& op) {
  if (op.kind != OpKind::kConv2d) return 0;
  const auto pixels = [](const std::vector<std::int64_t>& shape) {  // (..., height, width)
    return shape[shape.size() - 2] * shape[shape.size() - 1];
  };
  const bool to_one = pixels(graph.tensor(op.outputs.front()).shape) == 1;
  const bool from_one = pixels(graph.tensor(op.inputs.front()).shape) == 1;
  const Parameter& weight = graph.param(op.params.front());
  return to_one && !(from_one && pixels(weight.shape) == 1) ? param_bytes(weight) : 0;
}

// Tensors inside the operator that end with it.
std::int64_t inner_bytes(const Graph& graph, const Operator& op, std::int64_t samples) {
  if (op.kind == OpKind::kAttention) {
    const AttentionSizes n = attention_sizes(graph, op, samples);
    return floating_bytes(graph, op) * n.B * n.S * (3 * n.C + n.h * n.S);
  }
  if (op.kind == OpKind::kEmbeddingBag) return looked_up_bytes(graph, op, samples);
  if (is_loss(op.kind)) return tensor_bytes(graph.tensor(op.inputs.front()), samples);
  if (op.kind == OpKind::kLstm || op.kind == OpKind::kGru) {  // gates and states of all steps
    const std::vector<std::int64_t>& w_hh = graph.param(op.params[1]).shape;
    return (w_hh[0] / w_hh[1] + 1) * outputs_bytes(graph, op, samples);
  }
  return outputs_bytes(graph, op, samples);
}

bool has_trainable(const Graph& graph, const Operator& op) {
  return std::ranges::any_of(op.params, [&](ParamId p) { return graph.param(p).trainable; });
}

// The share of a backward that a half of it is: of the inputs' gradients and the
// parameters', or the one that there is.
double half_share(const Graph& graph, const Operator& op, Phase phase) {
  const bool weight = has_trainable(graph, op);
  const bool input = !weight || std::ranges::any_of(op.inputs, [&](TensorId in) {
    return is_floating(graph.tensor(in).dtype);
  });
  if (weight && input) return 0.5;
  return (phase == Phase::kBackwardWeight) == weight ? 1 : 0;
}

// Of an imported profile: what it says, in proportion to the samples, whatever the device.
OpCost opaque_cost(const Operator& op, std::int64_t samples, Phase phase) {
  const auto n = static_cast<double>(samples);
  switch (phase) {
    case Phase::kForward:
      return {.seconds = n * op.number("forward_s"),
              .saved_bytes = samples * op.integer("saved_bytes")};
    case Phase::kRecompute:
      return {.seconds = n * op.number("forward_s")};
    case Phase::kBackward:
      return {.seconds = n * op.number("backward_s")};
    case Phase::kBackwardInput:
    case Phase::kBackwardWeight:
      return {.seconds = n * op.number("backward_s") / 2};
  }
  GP_CHECK(false, "phase {}", static_cast<int>(phase));
}

}  // namespace

OpCost AnalyticCosts::op_cost(const Graph& graph, OpId id, std::int64_t samples, int tensor_degree,
                              const DeviceType& device, Phase phase) const {
  GP_CHECK(tensor_degree == 1, "tensor degree {}", tensor_degree);
  if (samples <= 0) return {};
  const Operator& op = graph.op(id);
  if (op.kind == OpKind::kOpaque) return opaque_cost(op, samples, phase);
  const int multiprocessors = options_.flat_efficiency ? 1 : device.multiprocessors;
  const double compute_s = forward_work(graph, id, samples, multiprocessors) /
                           (device.compute_efficiency * device.peak_flops_per_s);
  const double bytes_per_s = device.memory_efficiency * device.memory_bandwidth_bytes_per_s;
  const double launch_s = options_.launch_overhead_scale * device.launch_overhead_s;
  const double moved = moved_bytes(graph, op, samples);
  const std::int64_t inner =
      inner_bytes(graph, op, samples) + reordered_weights_bytes(graph, op) + kScalarsBytes;
  if (phase == Phase::kForward || phase == Phase::kRecompute) {
    return {.seconds = std::max(compute_s, moved / bytes_per_s) + launch_s,
            .workspace_bytes = inner,
            .saved_bytes =
                phase == Phase::kForward ? extra_saved_bytes(graph, op, samples, device) : 0};
  }
  if (!passes_gradient(op)) return {};
  const std::int64_t params = params_bytes(graph, op);
  // The gradient of a table is dense: all its rows are written.
  const double gradient = is_lookup(op.kind) ? static_cast<double>(params) : 0;
  OpCost cost{
      .seconds = std::max(2 * compute_s, (2 * moved + gradient) / bytes_per_s) + 2 * launch_s,
      .workspace_bytes = inner + inputs_bytes(graph, op, samples, true) + params};
  if (phase != Phase::kBackward) cost.seconds *= half_share(graph, op, phase);
  return cost;
}

// Of accelerators the frozen rule: every operator's inputs. A rank on CPU cores is one of ours.
bool AnalyticCosts::keeps_input(const Operator& op, std::size_t i, const DeviceType& device) const {
  return device.multiprocessors > 1 || runtime_keeps_input(op, i);
}

bool AnalyticCosts::keeps_output(const Operator& op, const DeviceType& device) const {
  return device.multiprocessors <= 1 && runtime_keeps_output(op);
}

std::string AnalyticCosts::name() const {
  std::string name = "analytic";
  if (options_.flat_efficiency) name += ", flat efficiency";
  if (options_.launch_overhead_scale != 1) {
    name += fmt::format(", launch overhead x {:g}", options_.launch_overhead_scale);
  }
  return name;
}

}  // namespace graphpipe

// Floating-point operations of operators. A multiply-add counts two; for what is not a
// matrix product the counts per element are rough, since memory decides there.

#include "base/error.h"
#include "graph/custom_op.h"
#include "graph/functions.h"
#include "graph/graph.h"

namespace graphpipe {
namespace {

// Per element; transcendental functions count as the handful of operations that
// libraries spend on them.
constexpr double kSoftmaxPerElement = 8;   // maximum, subtract, exp, sum, divide
constexpr double kNormPerElement = 8;      // two sums, normalise, scale, shift
constexpr double kGeluPerElement = 10;     // erf
constexpr double kSigmoidPerElement = 4;   // negate, exp, add, divide
constexpr double kBilinearPerElement = 8;  // four products and their weights
constexpr double kDropoutPerElement = 2;   // compare, scale
constexpr double kSquaredErrorPerElement = 3;
constexpr double kBinaryCrossEntropyPerElement = 10;

double elements(const std::vector<std::int64_t>& shape) {
  return static_cast<double>(element_count(shape));
}

// Of a convolution's weight, all but its first dimension.
double weights_of_a_channel(const Graph& graph, const Operator& op) {
  const std::vector<std::int64_t>& weight = graph.param(op.params[0]).shape;
  return elements(weight) / static_cast<double>(weight[0]);
}

}  // namespace

double forward_flops_per_sample(const Graph& graph, OpId id) {
  const Operator& op = graph.op(id);
  const std::vector<std::int64_t>& x = graph.tensor(op.inputs[0]).shape;
  const double in = elements(x);
  const double out = elements(graph.tensor(op.outputs[0]).shape);
  switch (op.kind) {
    case OpKind::kLinear:
    case OpKind::kMatmul:  // out holds rows and columns, the last dimension of x is summed over
      return 2 * out * static_cast<double>(x.back());
    case OpKind::kAttention: {
      const auto T = static_cast<double>(x[0]);
      const auto C = static_cast<double>(x[1]);
      return 8 * T * C * C + 4 * T * T * C;
    }
    case OpKind::kConv1d:
    case OpKind::kConv2d:  // each output sums over a window of the channels of its group
      return 2 * out * weights_of_a_channel(graph, op);
    case OpKind::kConvTranspose2d:  // each input is spread over a window of its group's outputs
      return 2 * in * weights_of_a_channel(graph, op);
    case OpKind::kLstm:
    case OpKind::kGru:  // two products a step
      return 2 * static_cast<double>(x[0]) *
             (elements(graph.param(op.params[0]).shape) +
              elements(graph.param(op.params[1]).shape));
    case OpKind::kMaxPool2d:
    case OpKind::kAvgPool2d:
      return out * elements(op.list("kernel"));
    case OpKind::kResize:
      return op.text("mode") == "bilinear" ? kBilinearPerElement * out : 0;
    case OpKind::kBatchNorm:
    case OpKind::kLayerNorm:
      return kNormPerElement * in;
    case OpKind::kAlongAxis:
    case OpKind::kSoftmax:
    case OpKind::kCrossEntropy:
      return kSoftmaxPerElement * in;
    case OpKind::kGelu:
      return kGeluPerElement * in;
    case OpKind::kSigmoid:
    case OpKind::kTanh:
      return kSigmoidPerElement * in;
    case OpKind::kElementwise:
      return elementwise_function(op.text("function")).flops * out;
    case OpKind::kAdd:
      return static_cast<double>(op.inputs.size() - 1) * in;
    case OpKind::kRelu:
    case OpKind::kMul:
    case OpKind::kAddParameter:
    case OpKind::kMean:
    case OpKind::kReduce:
    case OpKind::kGlobalAvgPool:
    case OpKind::kCorrect:
      return in;
    case OpKind::kEmbeddingBag:  // n ids, each adds dim numbers
      return in * out;
    case OpKind::kDropout:
      return kDropoutPerElement * in;
    case OpKind::kMseLoss:
      return kSquaredErrorPerElement * in;
    case OpKind::kBinaryCrossEntropy:
      return kBinaryCrossEntropyPerElement * in;
    case OpKind::kConcat:
    case OpKind::kEmbedding:
    case OpKind::kReshape:
    case OpKind::kTranspose:
    case OpKind::kSlice:
    case OpKind::kSplit:
    case OpKind::kPad:
    case OpKind::kGather:
    case OpKind::kExpand:
    case OpKind::kOpaque:
      return 0;
    case OpKind::kCustom: {
      const CustomOp& own = custom_op(op);
      if (own.flops_per_sample) return own.flops_per_sample(custom_types(graph, op));
      double written = 0;
      for (const TensorId output : op.outputs) written += elements(graph.tensor(output).shape);
      return written;
    }
  }
  GP_CHECK(false, "operator kind {}", static_cast<int>(op.kind));
}

}  // namespace graphpipe

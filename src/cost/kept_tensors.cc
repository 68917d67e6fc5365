#include "cost/kept_tensors.h"

#include "base/error.h"
#include "graph/custom_op.h"
#include "graph/functions.h"

namespace graphpipe {

bool runtime_keeps_input(const Operator& op, std::size_t input) {
  switch (op.kind) {
    case OpKind::kLinear:
    case OpKind::kMatmul:
    case OpKind::kAttention:
    case OpKind::kLayerNorm:
    case OpKind::kGelu:
    case OpKind::kMul:
    case OpKind::kEmbedding:
    case OpKind::kConv1d:
    case OpKind::kConv2d:
    case OpKind::kConvTranspose2d:
    case OpKind::kMaxPool2d:
    case OpKind::kAvgPool2d:
    case OpKind::kBatchNorm:
    case OpKind::kBinaryCrossEntropy:
    case OpKind::kOpaque:  // a profile's activations count whole
      return true;
    case OpKind::kReduce:
      return reduction_keeps_input(op.text("function"));
    case OpKind::kGather: {  // the data, where each sample has indices of its own; a copy of those
      const std::vector<std::int64_t>& operands = op.list("operands");
      return (operands[1] >= 0 || op.text("mode") == "elements") &&
             operands[0] == static_cast<std::int64_t>(input);
    }
    case OpKind::kElementwise:
      return elementwise_function(op.text("function")).keeps_operands;
    case OpKind::kCustom:
      return custom_op(op).backward && custom_op(op).keeps_inputs;
    case OpKind::kCrossEntropy:  // the target; of logits their softmax
      return input == 1;
    case OpKind::kSoftmax:
    case OpKind::kRelu:
    case OpKind::kSigmoid:
    case OpKind::kTanh:
    case OpKind::kAdd:
    case OpKind::kAddParameter:
    case OpKind::kConcat:
    case OpKind::kEmbeddingBag:
    case OpKind::kDropout:
    case OpKind::kReshape:
    case OpKind::kTranspose:
    case OpKind::kSlice:
    case OpKind::kSplit:
    case OpKind::kPad:
    case OpKind::kMean:
    case OpKind::kAlongAxis:
    case OpKind::kExpand:
    case OpKind::kGlobalAvgPool:
    case OpKind::kResize:
    case OpKind::kLstm:  // a copy that has the steps first
    case OpKind::kGru:
    case OpKind::kMseLoss:  // the difference
    case OpKind::kCorrect:
      return false;
  }
  GP_CHECK(false, "operator {} has no kind", op.name);
  return true;
}

bool runtime_keeps_output(const Operator& op) {
  if (op.kind == OpKind::kElementwise) {
    return elementwise_function(op.text("function")).keeps_result;
  }
  if (op.kind == OpKind::kReduce) return reduction_keeps_result(op.text("function"));
  if (op.kind == OpKind::kAlongAxis) return along_axis_keeps_result(op.text("function"));
  if (op.kind == OpKind::kCustom) return custom_op(op).backward && custom_op(op).keeps_outputs;
  return op.kind == OpKind::kRelu || op.kind == OpKind::kSoftmax || op.kind == OpKind::kSigmoid ||
         op.kind == OpKind::kTanh;
}

}  // namespace graphpipe

#include "data/input_range.h"

#include <algorithm>

namespace graphpipe {
namespace {

// Calls visit(op, place among the op's inputs) for each operator that computes with the
// tensor's elements, past those that only move them.
template <typename Visit>
void visit_readers(const Graph& graph, const std::vector<std::vector<OpId>>& readers,
                   TensorId tensor, const Visit& visit) {
  for (const OpId id : readers[tensor.index()]) {
    const Operator& op = graph.op(id);
    switch (op.kind) {
      case OpKind::kReshape:
      case OpKind::kTranspose:
      case OpKind::kSlice:
      case OpKind::kSplit:
      case OpKind::kConcat:
        for (const TensorId output : op.outputs) visit_readers(graph, readers, output, visit);
        break;
      default:
        for (std::size_t place = 0; place < op.inputs.size(); ++place) {
          if (op.inputs[place] == tensor) visit(op, place);
        }
    }
  }
}

// Lowest and largest number that input `place` of the operator may hold.
InputRange range_of(const Graph& graph, const Operator& op, std::size_t place) {
  const auto entries = [&] { return graph.param(op.params[0]).shape[0]; };
  if (op.kind == OpKind::kEmbedding) return {0, entries() - 1, op.name};
  if (op.kind == OpKind::kEmbeddingBag) return {-1, entries() - 1, op.name};
  const bool has_classes = op.kind == OpKind::kCrossEntropy || op.kind == OpKind::kCorrect;
  if (has_classes && place == 1) {
    return {0, graph.tensor(op.inputs[0]).shape.back() - 1, op.name};
  }
  return {};
}

}  // namespace

InputRange input_range(const Graph& graph, TensorId input) {
  InputRange range;
  visit_readers(graph, consumers(graph), input, [&](const Operator& op, std::size_t place) {
    const InputRange limit = range_of(graph, op, place);
    range.low = std::max(range.low, limit.low);
    if (limit.high < range.high) {
      range.high = limit.high;
      range.op = limit.op;
    }
  });
  return range;
}

bool is_probability(const Graph& graph, TensorId input) {
  bool found = false;
  visit_readers(graph, consumers(graph), input, [&](const Operator& op, std::size_t place) {
    found = found || (op.kind == OpKind::kBinaryCrossEntropy && place == 1);
  });
  return found;
}

}  // namespace graphpipe

// How tests count what a model of the zoo is made of.

#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

// Of those that are trained; a batch norm's running statistics are not.
inline std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Parameter& p : graph.params) {
    if (p.trainable) count += element_count(p.shape);
  }
  return count;
}

// Billions of multiply-adds in convolutions, products and LSTMs, as papers count them.
inline double billion_multiply_adds(const Graph& graph) {
  constexpr OpKind kCounted[] = {OpKind::kConv2d, OpKind::kConvTranspose2d, OpKind::kLinear,
                                 OpKind::kMatmul, OpKind::kAttention,       OpKind::kLstm};
  double count = 0;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const OpKind kind = graph.ops[i].kind;
    if (std::ranges::find(kCounted, kind) != std::end(kCounted))
      count += forward_flops_per_sample(graph, OpId(i)) / 2e9;
  }
  return count;
}

inline std::map<std::string, int> kinds(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Operator& op : graph.ops) ++counts[std::string(op_kind_name(op.kind))];
  return counts;
}

// "x float32 (256, 1024)", in the order of the graph
inline std::vector<std::string> inputs(const Graph& graph) {
  std::vector<std::string> lines;
  for (const TensorId t : graph.inputs) {
    const Tensor& tensor = graph.tensor(t);
    lines.push_back(fmt::format("{} {} ({})", tensor.name, dtype_name(tensor.dtype),
                                fmt::join(tensor.shape, ", ")));
    EXPECT_TRUE(tensor.batched) << tensor.name;
  }
  return lines;
}

}  // namespace graphpipe

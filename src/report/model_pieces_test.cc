#include "report/model_pieces.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/builder.h"

namespace graphpipe {
namespace {

// x0 -> left.a -> left.b -+
//                         +-> sum -> head
// x1 -> right.a ----------+
Graph two_towers() {
  GraphBuilder builder("towers");
  const TensorId left = builder.linear("left.a", builder.input("x0", {4}), 4);
  const TensorId left_end = builder.relu("left.b", left);
  const TensorId right = builder.linear("right.a", builder.input("x1", {4}), 4);
  const TensorId head = builder.linear("head", builder.add("sum", {left_end, right}), 4);
  builder.loss(builder.mse_loss("loss", head, builder.input("target", {4})));
  return std::move(builder).build();
}

std::string pieces_text(const ModelPieces& pieces) {
  std::string text;
  for (const ModelPiece& piece : pieces.pieces) {
    text += fmt::format("s{} {}{} | ", piece.stage.value,
                        piece.branch.empty() ? "" : piece.branch + ": ", piece.ops.size());
  }
  for (const PieceEdge& edge : pieces.edges) {
    text += fmt::format("{}>{} ({} B) ", edge.from, edge.to, edge.bytes);
  }
  return text;
}

TEST(ModelPieces, AreAStagesShareOfABranch) {
  const Graph graph = two_towers();
  Plan plan;
  plan.stages.resize(2);
  plan.stages[0].ops = {OpId(0), OpId(1)};
  plan.stages[1].ops = {OpId(2), OpId(3), OpId(4), OpId(5)};
  EXPECT_EQ(pieces_text(model_pieces(plan, graph)),
            "s0 left: 2 | s1 right.a: 1 | s1 3 | 0>2 (16 B) 1>2 (16 B) ");
  EXPECT_EQ(pieces_text(model_pieces(plan, graph, 2)), "s0 2 | s1 4 | 0>1 (16 B) ");
}

}  // namespace
}  // namespace graphpipe

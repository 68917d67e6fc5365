#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "data/dataset.h"
#include "data/input_range.h"
#include "data/test_folder.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSamples = 500;

// Ids through a slice and a table, a bag, floats, a flag, a class and a probability.
Graph mixed_graph() {
  GraphBuilder g("mixed");
  const TensorId ids = g.input("ids", DType::kInt64, {3});
  const TensorId bag = g.input("bag", DType::kInt64, {4});
  const TensorId x = g.input("x", {2});
  const TensorId label = g.input("label", DType::kInt64, {});
  const TensorId clicked = g.input("clicked", {1});
  g.input("free", DType::kInt64, {});
  g.input("flag", DType::kBool, {2});
  const TensorId first = g.reshape("first", g.slice("slice", ids, 0, 0, 1), {});
  const TensorId row = g.embedding("table", first, 5, 4);
  const TensorId all = g.mean("rows.mean", g.embedding("wide", ids, 9, 4), 0);
  const TensorId z = g.concat("z", {row, all, g.embedding_bag("bags", bag, 3, 4), x}, -1);
  g.loss(g.cross_entropy("class_loss", g.linear("classes", z, 6), label));
  g.loss(g.binary_cross_entropy("click_loss", g.linear("clicks", z, 1), clicked));
  return std::move(g).build();
}

std::pair<std::int64_t, std::int64_t> extremes(const Dataset& dataset, const std::string& name) {
  const auto all = values<std::int64_t>(dataset, name);
  const auto [low, high] = std::minmax_element(all.begin(), all.end());
  return {*low, *high};
}

TEST(SyntheticDataset, WholeNumbersFillWhatConsumersAllow) {
  const Graph graph = mixed_graph();
  const auto dataset = synthetic_dataset(graph, kSamples, 1);
  using Pair = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(extremes(*dataset, "ids"), Pair(0, 4));   // the smaller table's
  EXPECT_EQ(extremes(*dataset, "bag"), Pair(-1, 2));  // with padding
  EXPECT_EQ(extremes(*dataset, "label"), Pair(0, 5));
  EXPECT_GE(extremes(*dataset, "free").first, 0);
}

TEST(SyntheticDataset, FloatsAreNormal) {
  const auto dataset = synthetic_dataset(mixed_graph(), kSamples, 1);
  double sum = 0;
  double squares = 0;
  const std::vector<float> all = values<float>(*dataset, "x");
  for (const float v : all) {
    sum += v;
    squares += v * v;
  }
  const auto count = static_cast<double>(all.size());
  EXPECT_EQ(all.size(), 1000U);
  EXPECT_NEAR(sum / count, 0, 0.1);
  EXPECT_NEAR(squares / count, 1, 0.15);
}

TEST(SyntheticDataset, TargetsOfBinaryCrossEntropyAreZeroOrOne) {
  const auto dataset = synthetic_dataset(mixed_graph(), kSamples, 1);
  const std::vector<float> all = values<float>(*dataset, "clicked");
  const auto ones = std::count(all.begin(), all.end(), 1.0F);
  EXPECT_EQ(ones + std::count(all.begin(), all.end(), 0.0F), kSamples);
  EXPECT_GT(ones, kSamples / 3);
  EXPECT_LT(ones, kSamples * 2 / 3);
}

TEST(SyntheticDataset, BoolsAreOneByteOfZeroOrOne) {
  const auto dataset = synthetic_dataset(mixed_graph(), kSamples, 1);
  EXPECT_EQ(dataset->field("flag")->bytes_per_sample(), 2);
  for (const char byte : values<char>(*dataset, "flag")) EXPECT_TRUE(byte == 0 || byte == 1);
}

TEST(SyntheticDataset, FollowsTheGraphsFloatingType) {
  GraphBuilder g("double", DType::kFloat64);
  g.input("x", {2});
  const auto dataset = synthetic_dataset(std::move(g).build(), 3, 1);
  EXPECT_EQ(dataset->field("x")->dtype, DType::kFloat64);
  EXPECT_EQ(dataset->field("x")->bytes_per_sample(), 16);
}

TEST(SyntheticDataset, ASampleDependsOnTheSeedAndNotOnHowManyThereAre) {
  const Graph graph = mixed_graph();
  const auto few = values<float>(*synthetic_dataset(graph, 5, 1), "x");
  const auto many = values<float>(*synthetic_dataset(graph, 50, 1), "x");
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_NE(values<float>(*synthetic_dataset(graph, 5, 2), "x"), few);
}

TEST(InputRange, NamesTheOperatorOfTheLowestLimit) {
  const Graph graph = mixed_graph();
  const InputRange range = input_range(graph, graph.inputs[0]);
  EXPECT_EQ(range.low, 0);
  EXPECT_EQ(range.high, 4);
  EXPECT_EQ(range.op, "table");
}

TEST(InputRange, IsOpenWhereNobodyReads) {
  const Graph graph = mixed_graph();
  EXPECT_EQ(input_range(graph, graph.inputs[5]).op, "");
}

}  // namespace
}  // namespace graphpipe

// Sizes of the zoo's models against formulas worked out by hand.

#include "models/zoo/zoo.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/series_parallel.h"
#include "models/zoo/test_counts.h"

namespace graphpipe {
namespace {

// An encoder layer of width C and feed-forward width F: attention's four matrices and
// biases, two norms, two linear layers.
std::int64_t layer_parameters(std::int64_t C, std::int64_t F) {
  return (4 * C * C + 4 * C) + 2 * (2 * C) + (C * F + F) + (F * C + C);
}

TEST(Mmt, HasThePapersSize) {
  const Graph graph = load_model("mmt");
  EXPECT_EQ(parameter_count(graph), 4 * 8 * layer_parameters(1024, 4096) + (4 * 1024 * 16 + 16));
  const std::map<std::string, int> expected{{"add", 64},  {"attention", 32}, {"concat", 1},
                                            {"gelu", 32}, {"linear", 65},    {"layer_norm", 64},
                                            {"mean", 1},  {"mse_loss", 1}};
  EXPECT_EQ(kinds(graph), expected);
  EXPECT_EQ(inputs(graph), std::vector<std::string>(
                               {"modality0 float32 (256, 1024)", "modality1 float32 (256, 1024)",
                                "modality2 float32 (256, 1024)", "modality3 float32 (256, 1024)",
                                "target float32 (16)"}));
}

TEST(Mmt, ShrinksAndWidens) {
  const Graph graph = load_model(
      "mmt:branches=3,layers=2,sequence=8,hidden=12,heads=3,ffn=20,outputs=5,dropout=100");
  EXPECT_EQ(parameter_count(graph), 3 * 2 * layer_parameters(12, 20) + (3 * 12 * 5 + 5));
  EXPECT_EQ(kinds(graph)["dropout"], 3 * 2 * 2);
  const auto dropout = std::find_if(graph.ops.begin(), graph.ops.end(),
                                    [](const Operator& op) { return op.kind == OpKind::kDropout; });
  EXPECT_EQ(dropout->number("rate"), 0.1);
}

TEST(Mmt, OneBranchNeedsNoConcat) { EXPECT_EQ(kinds(load_model("mmt:branches=1"))["concat"], 0); }

TEST(Transformer, HasTheLayersOfMmtInOneChain) {
  const Graph graph = load_model("transformer");
  EXPECT_EQ(parameter_count(graph), 32 * layer_parameters(1024, 4096) + (1024 * 16 + 16));
  EXPECT_EQ(kinds(graph)["attention"], 32);
  EXPECT_EQ(kinds(graph)["concat"], 0);
  EXPECT_EQ(inputs(graph),
            std::vector<std::string>({"sequence float32 (256, 1024)", "target float32 (16)"}));
}

TEST(TwoBranch, HasFourBlocksABranch) {
  const Graph graph = load_model("two-branch");
  const std::int64_t C = 1024, F = 4096;
  EXPECT_EQ(parameter_count(graph), 2 * 4 * ((4 * C * C + 4 * C) + (C * F + F) + (F * C + C)));
  const std::map<std::string, int> expected{
      {"attention", 8}, {"concat", 1}, {"linear", 16}, {"mean", 1}, {"mse_loss", 1}};
  EXPECT_EQ(kinds(graph), expected);
}

// `layers` linear layers from n numbers to H.
std::int64_t feed_forward_parameters(std::int64_t n, std::int64_t layers, std::int64_t H) {
  return (n * H + H) + (layers - 1) * (H * H + H);
}

TEST(Dlrm, HasThePapersSize) {
  const Graph graph = load_model("dlrm");
  const std::int64_t H = 4096;
  EXPECT_EQ(parameter_count(graph), 7 * feed_forward_parameters(H, 4, H) + 7 * 1000000LL * 64 +
                                        feed_forward_parameters(7 * H + 7 * 100 * 64, 4, H) +
                                        (H + 1));
  const std::map<std::string, int> expected{
      {"binary_cross_entropy", 1}, {"concat", 1},       {"embedding", 7},
      {"linear", 7 * 4 + 4 + 1},   {"relu", 7 * 4 + 4}, {"reshape", 7 + 1}};
  EXPECT_EQ(kinds(graph), expected);
}

TEST(Dlrm, ShrinksAndWidens) {
  const Graph graph = load_model(
      "dlrm:branches=2,tables=3,layers=2,hidden=5,features=6,entries=7,dimension=4,bag=3,"
      "top_layers=1");
  EXPECT_EQ(parameter_count(graph), 2 * ((6 * 5 + 5) + (5 * 5 + 5)) + 3 * (7 * 4) +
                                        ((2 * 5 + 3 * 3 * 4) * 5 + 5) + (5 + 1));
  EXPECT_EQ(inputs(graph), std::vector<std::string>({"dense0 float32 (6)", "dense1 float32 (6)",
                                                     "sparse0 int64 (3)", "sparse1 int64 (3)",
                                                     "sparse2 int64 (3)", "click float32 ()"}));
}

TEST(Dlrm, IsSeriesParallelInFourteenBranches) {
  const SpTree tree = decompose_series_parallel(load_model("dlrm"));
  EXPECT_TRUE(tree.exact);
  EXPECT_EQ(branch_count(tree), 14);
  EXPECT_EQ(branch_count(decompose_series_parallel(load_model("dlrm:branches=3,tables=0"))), 3);
}

TEST(CandleUno, HasThePapersSize) {
  const Graph graph = load_model("candle-uno");
  const std::int64_t H = 4096;
  EXPECT_EQ(parameter_count(graph),
            7 * feed_forward_parameters(H, 4, H) + feed_forward_parameters(7 * H, 4, H) + (H + 1));
  const std::map<std::string, int> expected{{"concat", 1},
                                            {"linear", 7 * 4 + 4 + 1},
                                            {"mse_loss", 1},
                                            {"relu", 7 * 4 + 4},
                                            {"reshape", 1}};
  EXPECT_EQ(kinds(graph), expected);
}

TEST(CandleUno, HasTheSizesOfFlexflowsExample) {
  const Graph graph = load_model("candle-uno:variant=flexflow");
  EXPECT_EQ(inputs(graph),
            std::vector<std::string>(
                {"dose1 float32 (1)", "dose2 float32 (1)", "cell.rnaseq float32 (942)",
                 "drug1.descriptors float32 (5270)", "drug1.fingerprints float32 (2048)",
                 "drug2.descriptors float32 (5270)", "drug2.fingerprints float32 (2048)",
                 "growth float32 ()"}));
  const std::int64_t H = 4192;
  EXPECT_EQ(parameter_count(graph), feed_forward_parameters(942, 8, H) +
                                        2 * feed_forward_parameters(5270, 8, H) +
                                        2 * feed_forward_parameters(2048, 8, H) +
                                        feed_forward_parameters(5 * H + 2, 4, H) + (H + 1));
  EXPECT_EQ(
      parameter_count(load_model("candle-uno:variant=flexflow,layers=1,hidden=2")),
      (942 + 2 * 5270 + 2 * 2048) * 2 + 5 * 2 + feed_forward_parameters(5 * 2 + 2, 4, 2) + (2 + 1));
}

TEST(CandleUno, FlexflowsInputsAreFixed) {
  for (const std::string name : {"branches", "features"}) {
    try {
      load_model("candle-uno:variant=flexflow," + name + "=3");
      ADD_FAILURE() << name;
    } catch (const InputError& error) {
      EXPECT_EQ(error.what(),
                "MODEL: " + name + " is for variant=paper; flexflow has its own 7 inputs");
    }
  }
}

TEST(CandleUno, IsSeriesParallelInABranchAFeature) {
  const SpTree tree = decompose_series_parallel(load_model("candle-uno:branches=16"));
  EXPECT_TRUE(tree.exact);
  EXPECT_EQ(branch_count(tree), 16);
  const SpTree flexflow = decompose_series_parallel(load_model("candle-uno:variant=flexflow"));
  EXPECT_TRUE(flexflow.exact);
  EXPECT_EQ(branch_count(flexflow), 5);  // the doses are read by the concatenation itself
}

TEST(Movielens, ReadsTheFieldsOfTheDataSet) {
  std::vector<std::string> found = inputs(load_model("movielens"));
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found,
            std::vector<std::string>({"film int64 ()", "genres int64 (10)", "rating float32 ()",
                                      "time float32 (4)", "title int64 (32)", "user int64 ()",
                                      "year float32 (1)"}));
}

TEST(Movielens, ATowerThatIsOffReadsNothing) {
  const auto names = [](const std::string& off) {
    std::vector<std::string> list;
    const Graph graph = load_model("movielens:" + off + "=0");
    for (const TensorId t : graph.inputs) list.push_back(graph.tensor(t).name);
    std::sort(list.begin(), list.end());
    return list;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("use_user"), Names({"film", "genres", "rating", "time", "title", "year"}));
  EXPECT_EQ(names("use_film"), Names({"genres", "rating", "time", "title", "user", "year"}));
  EXPECT_EQ(names("use_title"), Names({"film", "genres", "rating", "time", "user", "year"}));
  EXPECT_EQ(names("use_genre"), Names({"film", "rating", "title", "user"}));
}

TEST(Movielens, HasFourTowersAndTheirProducts) {
  constexpr std::int64_t D = 6;   // dim
  constexpr std::int64_t H = 10;  // hidden
  constexpr std::int64_t W = 5;   // width
  constexpr std::int64_t T = 16;  // title_dim
  const std::int64_t user = 7 * D + (D * 3 * W + 3 * W);
  const std::int64_t film = 9 * D + (D * W + W);
  const std::int64_t title = 40 * T / 4 + 8 * T + layer_parameters(T, 2 * T) + (T * W + W);
  const std::int64_t genres = 20 * D + ((D + 5) * H + H) + (H * W + W);
  const std::int64_t head = (9 * W * W + W) + (W + 1) + 9 * W + 1;
  EXPECT_EQ(
      parameter_count(load_model("movielens:users=7,films=9,dim=6,hidden=10,width=5,title_dim=16")),
      user + film + title + genres + head);
}

TEST(Movielens, OneTowerHasNothingToMultiply) {
  EXPECT_EQ(kinds(load_model("movielens:use_film=0,use_title=0,use_genre=0")).count("mul"), 0U);
  EXPECT_EQ(kinds(load_model("movielens:use_user=0")).count("mul"), 0U);
  EXPECT_EQ(kinds(load_model("movielens:use_film=0")).at("mul"), 1);
}

TEST(Movielens, IsSeriesParallelInFourBranches) {
  const SpTree tree = decompose_series_parallel(load_model("movielens"));
  EXPECT_TRUE(tree.exact);
  EXPECT_EQ(branch_count(tree), 4);
}

TEST(Movielens, NeedsATower) {
  try {
    load_model("movielens:use_user=0,use_film=0,use_title=0,use_genre=0");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "MODEL: expected at least one of use_user, use_film, use_title and use_genre to be 1");
  }
}

TEST(Movielens, ReportsTheRootOfTheMeanSquaredError) {
  const Graph graph = load_model("movielens");
  ASSERT_EQ(graph.losses.size(), 1U);
  ASSERT_EQ(graph.metrics.size(), 1U);
  EXPECT_EQ(graph.metrics[0].name, "rmse");
  EXPECT_EQ(graph.metrics[0].kind, "root_mean");
  EXPECT_EQ(graph.metrics[0].tensor, graph.losses[0].tensor);
}

TEST(Digits, ReadsTheFieldsOfTheDataSet) {
  EXPECT_EQ(inputs(load_model("digits")),
            std::vector<std::string>({"quadrant0 float32 (16)", "quadrant1 float32 (16)",
                                      "quadrant2 float32 (16)", "quadrant3 float32 (16)",
                                      "label int64 ()"}));
}

TEST(Digits, HasABranchAQuadrant) {
  const Graph graph = load_model("digits:hidden=8");
  EXPECT_EQ(parameter_count(graph),
            4 * ((16 * 8 + 8) + (8 * 8 + 8)) + (32 * 8 + 8) + (8 * 10 + 10));
}

TEST(Vgg16, HasThePublishedSize) {
  const Graph graph = load_model("vgg16");
  EXPECT_EQ(parameter_count(graph), 138'357'544);
  EXPECT_NEAR(billion_multiply_adds(graph), 15.47, 0.01);
  const std::map<std::string, int> expected{{"conv2d", 13},    {"correct", 1}, {"cross_entropy", 1},
                                            {"dropout", 2},    {"linear", 3},  {"relu", 15},
                                            {"max_pool2d", 5}, {"reshape", 1}};
  EXPECT_EQ(kinds(graph), expected);
  EXPECT_EQ(inputs(graph),
            std::vector<std::string>({"image float32 (3, 224, 224)", "label int64 ()"}));
}

TEST(Vgg16, BatchNormsAddAScaleAndAShiftAChannel) {
  const Graph graph = load_model("vgg16:batch_norm=1");
  EXPECT_EQ(parameter_count(graph), 138'365'992);
  EXPECT_EQ(kinds(graph)["batch_norm"], 13);
}

TEST(Vgg16, Shrinks) {
  const Graph graph = load_model("vgg16:image=32,channels=1,classes=10,width=2,hidden=8,dropout=0");
  const std::int64_t convolutions =
      9 * (1 * 2 + 2 * 2 + 2 * 4 + 4 * 4 + 4 * 8 + 2 * 8 * 8 + 8 * 16 + 5 * 16 * 16);
  const std::int64_t biases = 2 * 2 + 2 * 4 + 3 * 8 + 6 * 16;
  EXPECT_EQ(parameter_count(graph),
            convolutions + biases + (16 * 8 + 8) + (8 * 8 + 8) + (8 * 10 + 10));
  EXPECT_EQ(kinds(graph)["dropout"], 0);
}

TEST(ResNet50, HasThePublishedSize) {
  const Graph graph = load_model("resnet50");
  EXPECT_EQ(parameter_count(graph), 25'557'032);
  EXPECT_NEAR(billion_multiply_adds(graph), 4.09, 0.01);
  const std::map<std::string, int> expected{
      {"add", 16},    {"batch_norm", 53}, {"conv2d", 53},
      {"correct", 1}, {"linear", 1},      {"cross_entropy", 1},
      {"relu", 49},   {"max_pool2d", 1},  {"global_avg_pool", 1}};
  EXPECT_EQ(kinds(graph), expected);
}

TEST(ResNet50, BiasesStandInForBatchNorms) {
  // 26,560 channels with a bias in place of a scale and a shift.
  EXPECT_EQ(parameter_count(load_model("resnet50:batch_norm=0")), 25'557'032 - 26'560);
}

TEST(ResNet50, HasAsManyBlocksAsAsked) {
  EXPECT_EQ(kinds(load_model("resnet50:blocks=1"))["add"], 4);
}

TEST(UNet, HasThePapersSize) {
  const auto twice = [](std::int64_t in, std::int64_t out) {
    return (9 * in * out + out) + (9 * out * out + out);
  };
  const auto grow = [](std::int64_t out) { return 4 * (2 * out) * out + out; };
  std::int64_t expected = twice(1, 64) + twice(512, 1024) + (64 * 2 + 2);
  for (const std::int64_t width : {64, 128, 256, 512}) {
    if (width > 64) expected += twice(width / 2, width);
    expected += grow(width) + twice(2 * width, width);
  }
  const Graph graph = load_model("unet");
  EXPECT_EQ(parameter_count(graph), expected);
  EXPECT_EQ(expected, 31'030'658);
  const std::map<std::string, int> kind_counts = kinds(graph);
  EXPECT_EQ(kind_counts.at("conv2d") + kind_counts.at("conv_transpose2d"), 23);
  EXPECT_EQ(inputs(graph),  // 388 x 388 pixels come out
            std::vector<std::string>({"image float32 (1, 572, 572)", "label int64 (388, 388)"}));
}

TEST(UNet, KeepsTheSizeOfTheImageWithPadding) {
  const Graph graph = load_model("unet:image=32,padding=1,depth=3,width=2,batch_norm=1");
  EXPECT_EQ(inputs(graph),
            std::vector<std::string>({"image float32 (1, 32, 32)", "label int64 (32, 32)"}));
  EXPECT_EQ(kinds(graph)["batch_norm"], 14);
  EXPECT_EQ(kinds(graph)["slice"], 0);
}

TEST(UNet, SkipsMakeNestedBranches) {
  const SpTree tree = decompose_series_parallel(load_model("unet"));
  EXPECT_TRUE(tree.exact);
}

}  // namespace
}  // namespace graphpipe

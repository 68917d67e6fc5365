// Shapes of operators over images and sequences, and what they say of inputs that do not fit.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

using Shape = std::vector<std::int64_t>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;

struct SpatialBench {
  GraphBuilder g{"bench"};
  TensorId image = g.input("image", {4, 9, 7});
  TensorId sequence = g.input("sequence", {6, 5});  // also channels by length
  TensorId vector = g.input("vector", {6});
  TensorId ids = g.input("ids", DType::kInt64, {4, 9, 7});
  TensorId fixed = g.input("fixed", DType::kFloat32, {4, 9, 7}, false);

  const Tensor& at(TensorId t) const { return g.graph().tensor(t); }
};

Shape shape(const std::function<TensorId(SpatialBench&)>& build) {
  SpatialBench bench;
  return bench.at(build(bench)).shape;
}

std::string spatial_fault(const std::function<void(SpatialBench&)>& build) {
  SpatialBench bench;
  try {
    build(bench);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(SpatialRules, ConvolutionsCountTheirWindows) {
  EXPECT_EQ(shape([](SpatialBench& b) { return b.g.conv2d("op", b.image, 5, 3); }),
            Shape({5, 7, 5}));
  EXPECT_EQ(shape([](SpatialBench& b) {
              return b.g.conv2d("op", b.image, 5, 3, {.stride = 2, .padding = 1});
            }),
            Shape({5, 5, 4}));
  EXPECT_EQ(shape([](SpatialBench& b) {
              return b.g.conv2d("op", b.image, 8, 3, {.dilation = 3, .groups = 4});
            }),
            Shape({8, 3, 1}));
  EXPECT_EQ(
      shape([](SpatialBench& b) { return b.g.conv1d("op", b.sequence, 3, 2, {.stride = 3}); }),
      Shape({3, 2}));
}

TEST(SpatialRules, ADepthwiseConvolutionHasAKernelAChannel) {
  SpatialBench bench;
  bench.g.conv2d("op", bench.image, 4, 3, {.groups = 4, .bias = false});
  ASSERT_EQ(bench.g.graph().params.size(), 1U);
  EXPECT_EQ(bench.g.graph().params[0].shape, Shape({4, 1, 3, 3}));
}

TEST(SpatialRules, ConvolutionsRefuseWhatDoesNotFit) {
  EXPECT_EQ(spatial_fault([](SpatialBench& b) { b.g.conv2d("op", b.image, 5, 8); }),
            "op: G3: conv2d: a window of 8 elements does not fit in the 7 of dimension 2 of input "
            "0 \"image\", padding included");
  EXPECT_EQ(spatial_fault([](SpatialBench& b) { b.g.conv2d("op", b.image, 5, 3, {.groups = 2}); }),
            "op: G3: conv2d: groups is 2, expected a divisor of the 4 channels in and the 5 out");
  EXPECT_EQ(spatial_fault([](SpatialBench& b) { b.g.conv2d("op", b.image, 5, 3, {.groups = 0}); }),
            "op: G3: conv2d: groups is 0, expected a divisor of the 4 channels in and the 5 out");
  EXPECT_EQ(spatial_fault([](SpatialBench& b) { b.g.conv2d("op", b.image, 5, 3, {.stride = 0}); }),
            "op: G3: conv2d: stride is (0, 0), expected 2 numbers from 1 to 1073741824");
  EXPECT_EQ(
      spatial_fault([](SpatialBench& b) { b.g.conv2d("op", b.image, 5, 3, {.padding = -1}); }),
      "op: G3: conv2d: padding is (-1, -1), expected 2 numbers from 0 to 1073741824");
  EXPECT_EQ(spatial_fault([](SpatialBench& b) { b.g.conv2d("op", b.ids, 5, 3); }),
            "op: G3: conv2d: input 0 \"ids\" is int64, expected float32 or float64");
  EXPECT_EQ(spatial_fault([](SpatialBench& b) { b.g.conv2d("op", b.fixed, 5, 3); }),
            "op: G3: conv2d: input 0 \"fixed\" has no samples, expected a batched tensor");
  EXPECT_EQ(spatial_fault([](SpatialBench& b) { b.g.conv2d("op", b.sequence, 5, 3); }),
            "op: input \"sequence\" has shape (6, 5), expected at least 3 dimensions");
  EXPECT_EQ(spatial_fault([](SpatialBench& b) { b.g.conv1d("op", b.image, 5, 3); }),
            "op: G3: conv1d: input 0 \"image\" has shape (4, 9, 7), expected 2 dimensions");
  EXPECT_EQ(spatial_fault([](SpatialBench& b) {
              const ParamId weight = b.g.param("w", {5, 3, 3, 3}, {});
              b.g.add_op("op", OpKind::kConv2d, {b.image}, {weight},
                         {{"dilation", Shape{1, 1}},
                          {"groups", std::int64_t{1}},
                          {"padding", Shape{0, 0}},
                          {"stride", Shape{1, 1}}});
            }),
            "op: G3: conv2d: weight (out, in / groups, kernel) \"w\" has shape (5, 3, 3, 3), "
            "expected (5, 4, 3, 3)");
}

// A transposed convolution with attributes beyond the builder's.
TensorId transposed(SpatialBench& b, const Shape& padding, const Shape& output_padding) {
  const ParamId weight = b.g.param("w", {4, 3, 2, 2}, {});
  return b.g.add_op("op", OpKind::kConvTranspose2d, {b.image}, {weight},
                    {{"dilation", Shape{1, 1}},
                     {"groups", std::int64_t{2}},
                     {"output_padding", output_padding},
                     {"padding", padding},
                     {"stride", Shape{2, 2}}})[0];
}

TEST(SpatialRules, TransposedConvolutionsSpreadTheirInputs) {
  EXPECT_EQ(shape([](SpatialBench& b) {
              return b.g.conv_transpose2d("op", b.image, 5, 2, {.stride = 2});
            }),
            Shape({5, 18, 14}));
  EXPECT_EQ(shape([](SpatialBench& b) {
              return transposed(b, {1, 0}, {1, 0});
            }),
            Shape({6, 17, 14}));
  EXPECT_EQ(spatial_fault([](SpatialBench& b) {
              transposed(b, {0, 0}, {2, 0});
            }),
            "op: G3: conv_transpose2d: output_padding is (2, 0), expected less than stride or "
            "dilation");
  EXPECT_EQ(spatial_fault([](SpatialBench& b) {
              transposed(b, {0, 7}, {0, 0});
            }),
            "op: G3: conv_transpose2d: padding (0, 7) leaves nothing of dimension 2 of the output");
}

TEST(SpatialRules, PoolsKeepTheirChannels) {
  EXPECT_EQ(shape([](SpatialBench& b) { return b.g.max_pool2d("op", b.image, 2, 2); }),
            Shape({4, 4, 3}));
  EXPECT_EQ(shape([](SpatialBench& b) { return b.g.avg_pool2d("op", b.image, 3, 2, 1); }),
            Shape({4, 5, 4}));
  EXPECT_EQ(shape([](SpatialBench& b) { return b.g.global_avg_pool("op", b.image); }), Shape({4}));
  EXPECT_EQ(shape([](SpatialBench& b) { return b.g.global_avg_pool("op", b.sequence); }),
            Shape({6}));
  EXPECT_EQ(spatial_fault([](SpatialBench& b) { b.g.max_pool2d("op", b.image, 3, 1, 2); }),
            "op: G3: max_pool2d: padding is (2, 2), expected at most half of the kernel (3, 3)");
  EXPECT_EQ(spatial_fault([](SpatialBench& b) { b.g.global_avg_pool("op", b.vector); }),
            "op: G3: global_avg_pool: input 0 \"vector\" has shape (6), expected at least 2 "
            "dimensions");
}

TEST(SpatialRules, AResizeGivesTheSizeAskedFor) {
  EXPECT_EQ(shape([](SpatialBench& b) {
              return b.g.resize("op", b.image, {18, 5});
            }),
            Shape({4, 18, 5}));
  EXPECT_EQ(spatial_fault([](SpatialBench& b) {
              b.g.resize("op", b.image, {18, 5}, "cubic");
            }),
            "op: G3: resize: mode is \"cubic\", expected \"nearest\" or \"bilinear\"");
  EXPECT_EQ(spatial_fault([](SpatialBench& b) { b.g.resize("op", b.image, {18}); }),
            "op: G3: resize: size is (18), expected 2 numbers from 1 to 1073741824");
}

TEST(SpatialRules, BatchNormHasFourNumbersAChannel) {
  EXPECT_EQ(shape([](SpatialBench& b) { return b.g.batch_norm("op", b.image); }), Shape({4, 9, 7}));
  EXPECT_EQ(shape([](SpatialBench& b) { return b.g.batch_norm("op", b.vector); }), Shape({6}));
  EXPECT_EQ(spatial_fault([](SpatialBench& b) { b.g.batch_norm("op", b.image, 0); }),
            "op: G3: batch_norm: epsilon is 0, expected more than 0 and less than 1");
  EXPECT_EQ(spatial_fault([](SpatialBench& b) { b.g.batch_norm("op", b.image, 1e-5, 1.5); }),
            "op: G3: batch_norm: momentum is 1.5, expected more than 0 and at most 1");
  EXPECT_EQ(spatial_fault([](SpatialBench& b) {
              std::vector<ParamId> params;
              for (const char* name : {"w", "b", "m", "v"}) {
                params.push_back(b.g.param(name, {4}, {}));
              }
              b.g.add_op("op", OpKind::kBatchNorm, {b.image}, params,
                         {{"epsilon", 1e-5}, {"momentum", 0.1}});
            }),
            "op: G3: batch_norm: mean (C) \"m\" is trainable, expected \"trainable\": false");
}

TEST(SpatialRules, RunningStatisticsBelongToOneOperator) {
  GraphBuilder g("shared");
  const TensorId x = g.input("x", {4});
  g.batch_norm("first", x);
  const std::vector<ParamId> params = g.graph().ops[0].params;
  g.add_op("second", OpKind::kBatchNorm, {x}, params, {{"epsilon", 1e-5}, {"momentum", 0.1}});
  try {
    std::move(g).build();
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "shared: /ops/0: G3: batch_norm: \"first.mean\" is held elsewhere too, expected "
                 "running statistics of its own");
  }
}

TEST(SpatialRules, ASplitHasAnOutputForEachSize) {
  SpatialBench bench;
  const std::vector<TensorId> parts = bench.g.split("op", bench.image, -3, {1, 3});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(bench.at(parts[0]).shape, Shape({1, 9, 7}));
  EXPECT_EQ(bench.at(parts[1]).shape, Shape({3, 9, 7}));
  EXPECT_EQ(bench.at(parts[1]).name, "op.1");
  EXPECT_EQ(bench.at(parts[1]).producer, OpId(0));
  const auto sizes_fault = [](const Shape& sizes) {
    return spatial_fault([&](SpatialBench& b) { b.g.split("op", b.vector, 0, sizes); });
  };
  for (const Shape& sizes : {Shape{2, 3}, Shape{4, 3}, Shape{7, -1}, Shape{0, 6}, Shape{}}) {
    EXPECT_EQ(sizes_fault(sizes),
              fmt::format("op: G3: split: sizes is ({}), expected positive ones that add up to the "
                          "6 of axis 0 of input 0 \"vector\"",
                          fmt::join(sizes, ", ")));
  }
}

TEST(SpatialRules, APadAddsToBothEnds) {
  EXPECT_EQ(shape([](SpatialBench& b) {
              return b.g.pad("op", b.image, {0, 1, 2}, {1, 0, 3});
            }),
            Shape({5, 10, 12}));
  EXPECT_EQ(spatial_fault([](SpatialBench& b) {
              b.g.pad("op", b.image, {0, 1}, {1, 0, 3});
            }),
            "op: G3: pad: before is (0, 1), expected 3 numbers from 0 to 1073741824");
}

TEST(SpatialRules, RecurrentOperatorsGiveTheStateOfEveryStep) {
  EXPECT_EQ(shape([](SpatialBench& b) { return b.g.lstm("op", b.sequence, 3); }), Shape({6, 3}));
  EXPECT_EQ(shape([](SpatialBench& b) { return b.g.gru("op", b.sequence, 3); }), Shape({6, 3}));
  const auto with = [](OpKind kind, const Shape& w_ih, const Shape& w_hh) {
    return spatial_fault([&](SpatialBench& b) {
      const std::vector<ParamId> params{b.g.param("a", w_ih, {}), b.g.param("b", w_hh, {}),
                                        b.g.param("c", {12}, {}), b.g.param("d", {12}, {})};
      b.g.add_op("op", kind, {b.sequence}, params, {});
    });
  };
  EXPECT_EQ(with(OpKind::kLstm, {12, 5}, {12, 3}), "");
  EXPECT_EQ(with(OpKind::kGru, {12, 5}, {12, 4}), "");
  EXPECT_EQ(with(OpKind::kLstm, {13, 5}, {12, 3}),
            "op: G3: lstm: w_ih (4H, in) has 13 rows, expected a multiple of 4");
  EXPECT_EQ(with(OpKind::kLstm, {12, 5}, {12, 4}),
            "op: G3: lstm: w_hh (4H, H) \"b\" has shape (12, 4), expected (12, 3)");
  EXPECT_EQ(with(OpKind::kGru, {12, 6}, {12, 4}),
            "op: G3: gru: w_ih (3H, in) \"a\" has shape (12, 6), expected (12, 5)");
}

// What formulas give by hand.
TEST(SpatialFlops, CountMultiplyAddsTwice) {
  SpatialBench b;
  b.g.conv2d("conv", b.image, 8, 3, {.padding = 1, .groups = 2});
  b.g.conv_transpose2d("grow", b.image, 5, 2, {.stride = 2});
  b.g.max_pool2d("pool", b.image, 2, 2);
  b.g.lstm("lstm", b.sequence, 3);
  b.g.gru("gru", b.sequence, 3);
  const auto flops = [&](std::size_t op) {
    return forward_flops_per_sample(b.g.graph(), OpId(op));
  };
  EXPECT_EQ(flops(0), 2.0 * (8 * 9 * 7) * (2 * 3 * 3));
  EXPECT_EQ(flops(1), 2.0 * (4 * 9 * 7) * (5 * 2 * 2));
  EXPECT_EQ(flops(2), 1.0 * (4 * 4 * 3) * (2 * 2));
  EXPECT_EQ(flops(3), 2.0 * 6 * (12 * 5 + 12 * 3));
  EXPECT_EQ(flops(4), 2.0 * 6 * (9 * 5 + 9 * 3));
}

TEST(MixesSamples, IsTrueOfBatchNormAlone) {
  for (int kind = 0; kind < kOpKindCount; ++kind) {
    EXPECT_EQ(mixes_samples(static_cast<OpKind>(kind)),
              static_cast<OpKind>(kind) == OpKind::kBatchNorm);
  }
}

}  // namespace
}  // namespace graphpipe

// What the opsets behind 17 changed, where ONNX's node tests leave it open: against PyTorch's own
// functions.

#include <ATen/ops/allclose.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "models/onnx/import.h"
#include "onnx/evaluate.h"

namespace graphpipe {
namespace {

using Ints = std::vector<std::int64_t>;

OnnxTensor floats(const std::string& name, const at::Tensor& values) {
  const std::size_t size = static_cast<std::size_t>(values.numel()) * sizeof(float);
  return {name, DType::kFloat32, values.sizes().vec(),
          std::string(static_cast<const char*>(values.data_ptr()), size)};
}

OnnxTensor integers(const std::string& name, const Ints& values) {
  return {name,
          DType::kInt64,
          {static_cast<std::int64_t>(values.size())},
          std::string(reinterpret_cast<const char*>(values.data()),
                      values.size() * sizeof(std::int64_t))};
}

OnnxValue value_of(const std::string& name, const Ints& sample) {
  OnnxValue value;
  value.name = name;
  value.dims.push_back({-1, "batch"});
  for (const std::int64_t size : sample) value.dims.push_back({size, ""});
  return value;
}

// From x, with its samples first, to the outputs named.
OnnxModel model_of(std::int64_t opset, const Ints& sample, std::vector<OnnxNode> nodes,
                   const std::vector<std::string>& outputs) {
  OnnxModel model;
  model.name = "m";
  model.opset = opset;
  model.inputs = {value_of("x", sample)};
  model.nodes = std::move(nodes);
  for (const std::string& name : outputs) model.outputs.push_back(value_of(name, {}));
  return model;
}

std::vector<at::Tensor> computed(const OnnxModel& model, const at::Tensor& x) {
  return evaluate(import_onnx(model, {}, "m"), {{"x", x}}, {{"x", 0}});
}

std::string refusal(const OnnxModel& model) {
  try {
    import_onnx(model, {}, "m");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

void expect_close(const at::Tensor& found, const at::Tensor& expected) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_TRUE(at::allclose(found, expected, 1e-5, 1e-6));
}

TEST(OnnxOpsets, AxesAsAWeightAndANumberOfOutputsAreRead) {
  const at::Tensor x = at::randn({3, 5, 7});
  const at::Tensor weight = at::randn({7}), bias = at::randn({7});
  OnnxModel model =
      model_of(18, {5, 7},
               {{"norm", "LayerNormalization", "", {"x", "w", "b"}, {"n"}, {}},
                {"mean", "ReduceMean", "", {"n", "axes"}, {"r"}, {{"keepdims", std::int64_t{0}}}},
                {"split",
                 "Split",
                 "",
                 {"r"},
                 {"p", "q"},
                 {{"axis", std::int64_t{1}}, {"num_outputs", std::int64_t{2}}}}},
               {"p", "q"});
  model.initializers = {floats("w", weight), floats("b", bias), integers("axes", {1})};
  const auto found = computed(model, x);
  const at::Tensor mean = at::layer_norm(x, {7}, weight, bias, 1e-5).mean(1);
  ASSERT_EQ(found.size(), 2U);
  expect_close(found[0], mean.narrow(1, 0, 4));  // the last is the smaller one
  expect_close(found[1], mean.narrow(1, 4, 3));
  model.nodes[2].attributes["num_outputs"] = std::int64_t{3};
  EXPECT_THAT(refusal(model), testing::HasSubstr("num_outputs is 3, expected 2"));
}

TEST(OnnxOpsets, AGroupNormScalesGroupsBefore21AndChannelsFromThen) {
  const at::Tensor x = at::randn({2, 6, 4, 3});
  const at::Tensor weight = at::randn({2}), bias = at::randn({2});
  OnnxModel model = model_of(18, {6, 4, 3},
                             {{"norm",
                               "GroupNormalization",
                               "",
                               {"x", "w", "b"},
                               {"y"},
                               {{"epsilon", 1e-5}, {"num_groups", std::int64_t{2}}}}},
                             {"y"});
  model.initializers = {floats("w", weight), floats("b", bias)};
  const at::Tensor wide = weight.repeat_interleave(3), shift = bias.repeat_interleave(3);
  const at::Tensor expected = at::group_norm(x, 2, wide, shift, 1e-5);
  expect_close(computed(model, x)[0], expected);
  model.opset = 21;
  EXPECT_THAT(refusal(model), testing::HasSubstr("input 1 has shape (2), expected (6)"));
  model.initializers = {floats("w", wide), floats("b", shift)};
  expect_close(computed(model, x)[0], expected);
}

TEST(OnnxOpsets, AReshapeThatAllowsZeroIsReadWhereItHasNone) {
  const at::Tensor x = at::randn({3, 4, 2});
  OnnxModel model =
      model_of(19, {4, 2},
               {{"r", "Reshape", "", {"x", "s"}, {"y"}, {{"allowzero", std::int64_t{1}}}}}, {"y"});
  model.initializers = {integers("s", {-1, 2, 4})};
  expect_close(computed(model, x)[0], x.reshape({3, 2, 4}));
  model.initializers = {integers("s", {0, 2, 4})};
  EXPECT_THAT(refusal(model), testing::HasSubstr("a tensor without elements"));
}

TEST(OnnxOpsets, DilatedPoolsAreThoseOfPyTorch) {
  const at::Tensor x = at::randn({2, 3, 11, 9});
  int tried = 0;
  for (const std::int64_t kernel : {2, 3}) {
    for (const std::int64_t stride : {1, 2, 4}) {
      for (const std::int64_t dilation : {1, 2, 3}) {
        for (const std::int64_t pad : {0, 1}) {
          for (const std::int64_t up : {0, 1}) {
            const OnnxModel model = model_of(22, {3, 11, 9},
                                             {{"pool",
                                               "MaxPool",
                                               "",
                                               {"x"},
                                               {"y"},
                                               {{"kernel_shape", Ints{kernel, kernel}},
                                                {"strides", Ints{stride, stride}},
                                                {"dilations", Ints{dilation, dilation}},
                                                {"pads", Ints{pad, pad, pad, pad}},
                                                {"ceil_mode", up}}}},
                                             {"y"});
            SCOPED_TRACE(fmt::format("{} {} {} {} {}", kernel, stride, dilation, pad, up));
            expect_close(computed(model, x)[0],
                         at::max_pool2d(x, kernel, stride, pad, dilation, up != 0));
            ++tried;
          }
        }
      }
    }
  }
  EXPECT_EQ(tried, 72);
}

}  // namespace
}  // namespace graphpipe

// Models of the zoo, written as ONNX and read again, compute what they computed.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "data/dataset.h"
#include "equivalence/cases.h"
#include "models/models.h"
#include "models/onnx/export.h"
#include "onnx/evaluate.h"
#include "runtime/batch_reader.h"
#include "runtime/parameters.h"
#include "runtime/reference.h"

namespace graphpipe {
namespace {

Weights drawn_weights(const Graph& graph) {
  Weights weights;
  for (const Parameter& param : graph.params) {
    const at::Tensor values = make_parameter(param, 3).detach();
    const auto* bytes = static_cast<const char*>(values.data_ptr());
    weights[param.name] = {param.dtype, param.shape,
                           std::make_shared<const std::string>(bytes, values.nbytes())};
  }
  return weights;
}

void expect_round_trip(const std::string& name) {
  SCOPED_TRACE(name);
  const Graph graph = load_model(name);
  constexpr std::int64_t kSamples = 4;
  const auto dataset = synthetic_dataset(graph, kSamples, 7);
  const BatchReader reader(graph, *dataset);
  std::vector<std::int64_t> ids(kSamples);
  std::iota(ids.begin(), ids.end(), 0);
  std::map<std::string, at::Tensor> inputs;
  std::vector<at::Tensor> tensors(graph.tensors.size());
  for (const TensorId input : graph.inputs) {
    tensors[input.index()] = reader.read(input, ids);
    inputs[graph.tensor(input).name] = tensors[input.index()];
  }
  std::vector<at::Tensor> params;
  for (const Parameter& param : graph.params) params.push_back(make_parameter(param, 3));
  const at::NoGradGuard no_gradients;
  run_operators(graph, params, {.training = false, .sample_ids = ids}, tensors);

  const OnnxModel written = export_onnx(graph, drawn_weights(graph), name);
  const std::string bytes = to_onnx(written);
  const ImportedOnnx imported = import_onnx(parse_onnx(bytes, name, ""), {}, name);
  const std::vector<at::Tensor> found = evaluate(imported, inputs);
  ASSERT_EQ(found.size(), written.outputs.size());
  std::size_t compared = 0;
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    for (std::size_t o = 0; o < found.size(); ++o) {
      if (written.outputs[o].name != graph.tensors[t].name) continue;
      ++compared;
      EXPECT_TRUE(at::allclose(found[o], tensors[t], 1e-4, 1e-5)) << written.outputs[o].name;
    }
  }
  EXPECT_EQ(compared, found.size());
}

TEST(OnnxRoundTrip, ModelsOfTheZoo) {
  for (const std::string& name : small_models()) expect_round_trip(name);
  for (const std::string& name : small_mixing_models()) expect_round_trip(name);
}

TEST(OnnxRoundTrip, ExportedModels) {
  for (const char* name : {"cnn", "bert", "gpt", "lstm", "encoder"}) {
    expect_round_trip(std::string(GP_SOURCE) + "/tests/onnx/exported/" + name +
                      ".onnx:loss=cross_entropy");
  }
}

}  // namespace
}  // namespace graphpipe

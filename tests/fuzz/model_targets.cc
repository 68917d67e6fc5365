#include <string>

#include "base/error.h"
#include "base/json_reader.h"
#include "fuzz/targets.h"
#include "graph/graph_json.h"
#include "models/dnn_partitioning_json.h"
#include "models/imported_graph.h"
#include "models/models.h"
#include "models/onnx/export.h"
#include "models/onnx/import.h"
#include "models/pipedream_profile.h"
#include "models/piper_json.h"

namespace graphpipe::fuzz {
namespace {

// What `graphpipe import` writes can be read.
void expect_writable(const Graph& graph) {
  const std::string text = to_json(graph);
  GP_CHECK(to_json(parse_graph(text, "again")) == text, "another graph");
}

// Exported and imported once more, where every operator has a form in ONNX.
void export_again(const Graph& graph) {
  std::string bytes;
  try {
    bytes = to_onnx(export_onnx(graph, given_weights(graph), "again"));
  } catch (const InputError&) {
    return;
  }
  import_onnx(parse_onnx(bytes, "again", ""), {}, "again");
}

}  // namespace

void onnx(std::string_view input) {
  const OnnxModel model = parse_onnx(input, "file", "");
  const Graph plain = import_onnx(model, {}, "file").graph;
  expect_writable(plain);
  export_again(plain);
  OnnxOptions options;
  options.loss = "cross_entropy";
  expect_writable(import_onnx(model, options, "file").graph);
}

void onnx_tensor(std::string_view input) {
  const OnnxTensor tensor = parse_onnx_tensor(input, "file");
  const auto bytes = static_cast<std::int64_t>(tensor.bytes.size());
  GP_CHECK(bytes == element_count(tensor.shape) * dtype_bytes(tensor.dtype), "{} bytes", bytes);
}

void pipedream(std::string_view input) {
  expect_writable(pipedream_graph(parse_pipedream(input, "file"), "fuzz", "file"));
}

void piper(std::string_view input) {
  const Json document = parse_json(input, "file");
  if (is_piper(document))
    expect_writable(piper_graph(parse_piper(document, "file"), "fuzz", "file"));
}

void dnn_partitioning(std::string_view input) {
  const Json document = parse_json(input, "file");
  if (!is_dnn_partitioning(document)) return;
  expect_writable(dnn_graph(parse_dnn_partitioning(document, "file"), "fuzz", "file"));
}

// Names of the zoo with parameters; no names of files.
void model_argument(std::string_view input) {
  if (input.find_first_of("/.") != std::string_view::npos) return;
  const std::string text(input.substr(0, input.find('\0')));
  load_model(text);
}

}  // namespace graphpipe::fuzz

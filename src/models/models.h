// Where graphs come from: a zoo name with parameters ("mmt:branches=2,layers=8"), or a
// file recognised by its content.

#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/presets.h"
#include "graph/graph.h"

namespace graphpipe {

// A parameter of a zoo model. All are whole numbers, but rates, which are in per mille
// (dropout=100 is 0.1), and choices, whose value is the place among their names.
struct ZooParameter {
  std::string name;
  std::int64_t value = 0;  // the default
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::string meaning;
  std::vector<std::string> choices = {};  // empty: a number
};
// "4", or a choice's name.
std::string value_text(const ZooParameter& parameter, std::int64_t value);

class ZooArguments {
 public:
  ZooArguments(std::vector<ZooParameter> parameters) : parameters_(std::move(parameters)) {}
  std::int64_t operator[](std::string_view name) const;  // GP_CHECKs that it exists
  bool given(std::string_view name) const;               // else it is the default
  // Throws InputError(where, ...) where the model has no such parameter or it is out of range.
  void set(const std::string& name, const std::string& text, const std::string& where);
  const std::vector<ZooParameter>& parameters() const { return parameters_; }

 private:
  std::vector<ZooParameter> parameters_;
  std::set<std::string, std::less<>> given_;
};

struct ZooModel {
  std::string name;     // "mmt"
  std::string summary;  // one line, with the source
  std::vector<ZooParameter> parameters;
  Graph (*build)(const ZooArguments& arguments, DType floating);
};

const std::vector<ZooModel>& zoo();  // sorted by name

// The graph of a MODEL argument. Throws InputError with the names that exist, the
// parameters that the model has, or what is wrong in the file. `floating` is for zoo
// models only.
// Planners' input files may say in which unit their times are: "FILE:time-unit=ms" (PipeDream,
// default ms; Piper, default s), "FILE:edge-unit=s" (dnn-partitioning, default ms).
// An ONNX file takes what docs/onnx.md lists: "FILE:loss=cross_entropy,labels=y,batch=N,seq=128".
Graph load_model(const std::string& model, DType floating = DType::kFloat32);

// Where the given values of a graph JSON's parameters lie: beside it, NAME.graph.safetensors.
std::string weights_path(const std::string& graph_path);

// The devices that a Piper or dnn-partitioning file was made for. Throws InputError where the
// MODEL argument is no such file.
EmbeddedCluster embedded_cluster(const std::string& model);

}  // namespace graphpipe

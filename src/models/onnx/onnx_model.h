// An ONNX file as plain values: what the importer reads and the exporter makes. Only
// onnx_file.cc knows the library's own classes, whose headers are heavy.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

struct OnnxTensor {
  std::string name;
  DType dtype = DType::kFloat32;  // narrower whole numbers are widened, half precision too
  std::vector<std::int64_t> shape;
  std::string bytes;  // row-major, as this machine holds them
};

// std::monostate: of a kind that no supported operator has (a graph, a sparse tensor).
using OnnxAttribute = std::variant<std::monostate, std::int64_t, double, std::string,
                                   std::vector<std::int64_t>, std::vector<double>, OnnxTensor>;

struct OnnxNode {
  std::string name;
  std::string type;                  // "Conv"
  std::string domain;                // "" is ONNX's own
  std::vector<std::string> inputs;   // "": left out
  std::vector<std::string> outputs;  // "": not wanted
  std::map<std::string, OnnxAttribute, std::less<>> attributes;
};

struct OnnxDim {
  std::int64_t size = -1;  // negative: not said, or named
  std::string symbol;
};

struct OnnxValue {
  std::string name;
  DType dtype = DType::kFloat32;
  std::string other_type;  // what it is where it is none of ours: "STRING", "no tensor"
  std::string declared;    // its type in the file's words: "FLOAT", "INT32"
  bool has_shape = true;
  std::vector<OnnxDim> dims;
};

struct OnnxModel {
  std::string name;
  std::int64_t opset = 17;  // of ONNX's own operators
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxValue> inputs;  // without those that are initializers
  std::vector<OnnxValue> outputs;
};

inline constexpr std::int64_t kOldestOpset = 11;
inline constexpr std::int64_t kNewestOpset = 22;

// Reads and checks by the library's checker. `folder` holds external data; "" refuses them.
// Throws InputError(file, ...) where it is no ONNX file, is damaged, of an opset that is not
// supported, or holds tensors that are.
OnnxModel parse_onnx(std::string_view bytes, const std::string& file, const std::string& folder);
// One tensor, as ONNX's own test data has them. Throws likewise.
OnnxTensor parse_onnx_tensor(std::string_view bytes, const std::string& file);
// Checked by the library's checker too.
std::string to_onnx(const OnnxModel& model);

}  // namespace graphpipe

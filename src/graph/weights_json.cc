// The safetensors form: eight bytes with the length of a header in JSON (little endian), the
// header ("NAME": {"dtype", "shape", "data_offsets": [begin, end]}), and the values.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/json_reader.h"
#include "graph/weights.h"

namespace graphpipe {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they lie");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{100} << 20;
constexpr std::int64_t kMostWeights = std::int64_t{1} << 40;
constexpr std::string_view kMetadata = "__metadata__";

constexpr std::array<std::pair<DType, std::string_view>, 4> kNames{{{DType::kFloat32, "F32"},
                                                                    {DType::kFloat64, "F64"},
                                                                    {DType::kInt64, "I64"},
                                                                    {DType::kBool, "BOOL"}}};

DType read_dtype(const JsonReader& json) {
  const std::string name = json.string();
  for (const auto& [dtype, known] : kNames) {
    if (known == name) return dtype;
  }
  json.fail(fmt::format("expected F32, F64, I64 or BOOL, found \"{}\"", name));
}

std::string_view dtype_code(DType dtype) {
  for (const auto& [known, name] : kNames) {
    if (known == dtype) return name;
  }
  GP_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

WeightValues read_weight(const JsonReader& json, std::string_view data, std::size_t& covered) {
  json.only({"dtype", "shape", "data_offsets"});
  WeightValues weight;
  weight.dtype = read_dtype(json["dtype"]);
  for (const JsonReader& item : json["shape"].items()) {
    weight.shape.push_back(item.integer_at_least(0));
  }
  const std::vector<JsonReader> offsets = json["data_offsets"].items();
  if (offsets.size() != 2) json["data_offsets"].fail("expected two numbers");
  const auto begin = static_cast<std::uint64_t>(offsets[0].integer_at_least(0));
  const auto end = static_cast<std::uint64_t>(offsets[1].integer_at_least(offsets[0].integer()));
  const std::int64_t elements = element_count(weight.shape);
  if (elements > kMostWeights || end > data.size() ||
      end - begin != static_cast<std::uint64_t>(elements * dtype_bytes(weight.dtype))) {
    json["data_offsets"].fail(fmt::format("[{}, {}) are not the bytes of {} elements among {}",
                                          begin, end, elements, data.size()));
  }
  weight.values = std::make_shared<const std::string>(data.substr(begin, end - begin));
  covered += end - begin;
  return weight;
}

}  // namespace

std::string to_safetensors(const Weights& weights) {
  // By the metadata some tools know whose layout values have: rows first, as PyTorch's.
  Json header = {{kMetadata, {{"format", "pt"}}}};
  std::size_t at = 0;
  for (const auto& [name, weight] : weights) {
    const std::size_t bytes = weight.values->size();
    header[name] = {{"dtype", dtype_code(weight.dtype)},
                    {"shape", weight.shape},
                    {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  const std::uint64_t length = text.size();
  std::string file(kLengthBytes, '\0');
  std::memcpy(file.data(), &length, kLengthBytes);
  file.reserve(kLengthBytes + text.size() + at);
  file += text;
  for (const auto& [name, weight] : weights) file += *weight.values;
  return file;
}

Weights parse_safetensors(std::string_view bytes, const std::string& file) {
  std::uint64_t length = 0;
  if (bytes.size() >= kLengthBytes) std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length == 0 || length > kMostHeaderBytes || length > bytes.size() - kLengthBytes) {
    throw InputError(file, "expected a safetensors file: the length of its header does not fit");
  }
  const Json document = parse_json(bytes.substr(kLengthBytes, length), file);
  const JsonReader json(document, file);
  const std::string_view data = bytes.substr(kLengthBytes + length);
  Weights weights;
  std::size_t covered = 0;
  for (const auto& [name, value] : json.members()) {
    if (name != kMetadata) weights[name] = read_weight(value, data, covered);
  }
  if (covered != data.size()) {
    throw InputError(file, fmt::format("the tensors take {} of {} bytes, expected all, each once",
                                       covered, data.size()));
  }
  return weights;
}

}  // namespace graphpipe

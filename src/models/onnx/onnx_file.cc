// Between ONNX's protocol buffers and plain values.

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>

#undef fail_check  // ONNX's macro; base/error.h has a function of that name

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "models/onnx/libraries.h"
#include "models/onnx/onnx_model.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 31;  // of a tensor in a file
constexpr int kMostNodes = 100'000;
constexpr std::int64_t kIrVersion = 8;  // of opset 17

// The library would write faults of a damaged file to standard error.
class QuietProtobuf {
 public:
  QuietProtobuf() : before_(google::protobuf::SetLogHandler(nullptr)) {}
  ~QuietProtobuf() { google::protobuf::SetLogHandler(before_); }
  QuietProtobuf(const QuietProtobuf&) = delete;
  QuietProtobuf& operator=(const QuietProtobuf&) = delete;

 private:
  google::protobuf::LogHandler* before_;
};

template <typename Message>
void parse_message(Message& message, std::string_view bytes, const std::string& file) {
  const QuietProtobuf quiet;
  if (bytes.size() < std::size_t{std::numeric_limits<int>::max()} &&
      message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return;
  }
  throw InputError(file, "expected an ONNX file: the protocol buffer is damaged or cut short");
}

std::string type_name(std::int32_t type) {
  return onnx::TensorProto::DataType_IsValid(type)
             ? onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type))
             : fmt::format("of type {}", type);
}

std::optional<DType> dtype_of(std::int32_t type) {
  switch (type) {
    case onnx::TensorProto::FLOAT:
    case onnx::TensorProto::FLOAT16:
      return DType::kFloat32;
    case onnx::TensorProto::DOUBLE:
      return DType::kFloat64;
    case onnx::TensorProto::INT64:
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::INT8:
    case onnx::TensorProto::UINT8:
    case onnx::TensorProto::UINT16:
      return DType::kInt64;
    case onnx::TensorProto::BOOL:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

float from_half(std::uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const int mantissa = half & 0x3ff;
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0x1f) {
    return mantissa == 0 ? static_cast<float>(sign * std::numeric_limits<double>::infinity())
                         : std::numeric_limits<float>::quiet_NaN();
  }
  if (exponent == 0) return static_cast<float>(sign * std::ldexp(mantissa, -24));
  return static_cast<float>(sign * std::ldexp(mantissa + 1024, exponent - 25));
}

// Values of the file as ours.
class TensorReader {
 public:
  TensorReader(const onnx::TensorProto& proto, std::string where, std::string folder)
      : proto_(proto), where_(std::move(where)), folder_(std::move(folder)) {}

  OnnxTensor read() {
    OnnxTensor tensor;
    tensor.name = proto_.name();
    const auto dtype = dtype_of(proto_.data_type());
    if (!dtype) fail(fmt::format("is {}, which is not supported", type_name(proto_.data_type())));
    tensor.dtype = *dtype;
    tensor.shape.assign(proto_.dims().begin(), proto_.dims().end());
    const bool positive = std::ranges::all_of(tensor.shape, [](auto d) { return d >= 0; });
    elements_ = positive ? element_count(tensor.shape) : -1;
    if (elements_ < 0 || elements_ > kMostElements) {
      fail(fmt::format("has shape ({}), expected at most {} elements",
                       fmt::join(tensor.shape, ", "), kMostElements));
    }
    fill(tensor.bytes);
    return tensor;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(where_, fmt::format("tensor \"{}\" {}", proto_.name(), what));
  }

  std::string external_bytes() const {
    std::string location;
    std::uint64_t offset = 0;
    for (const auto& entry : proto_.external_data()) {
      if (entry.key() == "location") location = entry.value();
      if (entry.key() == "offset") offset = std::strtoull(entry.value().c_str(), nullptr, 10);
    }
    const std::filesystem::path path(location);
    const bool outside = std::ranges::any_of(path, [](const auto& part) { return part == ".."; });
    if (location.empty() || folder_.empty() || path.is_absolute() || outside) {
      fail(fmt::format("lies in external file \"{}\", expected one in the model's folder",
                       location));
    }
    const std::string data = read_file((std::filesystem::path(folder_) / path).string());
    if (offset > data.size()) fail(fmt::format("lies beyond the end of \"{}\"", location));
    return data.substr(offset);
  }

  template <typename From, typename To>
  void convert_raw(const std::string& raw, std::string& out, bool exact) const {
    const auto count = static_cast<std::size_t>(elements_);
    if (raw.size() < count * sizeof(From) || (exact && raw.size() != count * sizeof(From))) {
      fail(fmt::format("has {} bytes, expected {}", raw.size(), count * sizeof(From)));
    }
    out.resize(count * sizeof(To));
    for (std::size_t i = 0; i < count; ++i) {
      From from;
      std::memcpy(&from, raw.data() + i * sizeof(From), sizeof from);
      const To to = static_cast<To>(from);  // NOLINT(bugprone-signed-char-misuse): int8
      std::memcpy(out.data() + i * sizeof(To), &to, sizeof to);
    }
  }

  template <typename To, typename List>
  void convert_list(const List& list, std::string& out) const {
    if (list.size() != elements_) {
      fail(fmt::format("has {} values, expected {}", list.size(), elements_));
    }
    out.resize(static_cast<std::size_t>(elements_) * sizeof(To));
    std::size_t at = 0;
    for (const auto from : list) {
      const To to = static_cast<To>(from);  // NOLINT(bugprone-signed-char-misuse): int8
      std::memcpy(out.data() + at, &to, sizeof to);
      at += sizeof to;
    }
  }

  void halves_to_floats(std::string& wide) const {
    std::string out(wide.size(), '\0');
    for (std::size_t i = 0; i < wide.size(); i += sizeof(float)) {
      std::uint32_t half = 0;
      std::memcpy(&half, wide.data() + i, sizeof half);
      const float value = from_half(static_cast<std::uint16_t>(half));
      std::memcpy(out.data() + i, &value, sizeof value);
    }
    wide = std::move(out);
  }

  void fill(std::string& out) const {
    const bool external = proto_.data_location() == onnx::TensorProto::EXTERNAL;
    const std::string raw = external ? external_bytes() : proto_.raw_data();
    if (external || proto_.has_raw_data()) return fill_raw(raw, out, !external);
    switch (proto_.data_type()) {
      case onnx::TensorProto::FLOAT:
        return convert_list<float>(proto_.float_data(), out);
      case onnx::TensorProto::DOUBLE:
        return convert_list<double>(proto_.double_data(), out);
      case onnx::TensorProto::INT64:
        return convert_list<std::int64_t>(proto_.int64_data(), out);
      case onnx::TensorProto::BOOL:
        convert_list<std::uint8_t>(proto_.int32_data(), out);
        for (char& byte : out) byte = static_cast<char>(byte != 0);
        return;
      case onnx::TensorProto::FLOAT16:
        convert_list<std::uint32_t>(proto_.int32_data(), out);
        return halves_to_floats(out);
      default:
        return convert_list<std::int64_t>(proto_.int32_data(), out);
    }
  }

  void fill_raw(const std::string& raw, std::string& out, bool exact) const {
    switch (proto_.data_type()) {
      case onnx::TensorProto::FLOAT:
        return convert_raw<float, float>(raw, out, exact);
      case onnx::TensorProto::DOUBLE:
        return convert_raw<double, double>(raw, out, exact);
      case onnx::TensorProto::INT64:
        return convert_raw<std::int64_t, std::int64_t>(raw, out, exact);
      case onnx::TensorProto::INT32:
        return convert_raw<std::int32_t, std::int64_t>(raw, out, exact);
      case onnx::TensorProto::INT16:
        return convert_raw<std::int16_t, std::int64_t>(raw, out, exact);
      case onnx::TensorProto::INT8:
        return convert_raw<std::int8_t, std::int64_t>(raw, out, exact);
      case onnx::TensorProto::UINT8:
        return convert_raw<std::uint8_t, std::int64_t>(raw, out, exact);
      case onnx::TensorProto::UINT16:
        return convert_raw<std::uint16_t, std::int64_t>(raw, out, exact);
      case onnx::TensorProto::FLOAT16:
        convert_raw<std::uint16_t, std::uint32_t>(raw, out, exact);
        return halves_to_floats(out);
      default:  // BOOL
        convert_raw<std::uint8_t, std::uint8_t>(raw, out, exact);
        for (char& byte : out) byte = static_cast<char>(byte != 0);
    }
  }

  const onnx::TensorProto& proto_;
  std::string where_;
  std::string folder_;
  std::int64_t elements_ = 0;
};

OnnxAttribute read_attribute(const onnx::AttributeProto& proto, const std::string& where,
                             const std::string& folder) {
  switch (proto.type()) {
    case onnx::AttributeProto::INT:
      return proto.i();
    case onnx::AttributeProto::FLOAT:
      return static_cast<double>(proto.f());
    case onnx::AttributeProto::STRING:
      return proto.s();
    case onnx::AttributeProto::INTS:
      return std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
    case onnx::AttributeProto::FLOATS:
      return std::vector<double>(proto.floats().begin(), proto.floats().end());
    case onnx::AttributeProto::TENSOR:
      return dtype_of(proto.t().data_type())
                 ? OnnxAttribute(TensorReader(proto.t(), where, folder).read())
                 : OnnxAttribute();
    default:
      return {};
  }
}

OnnxNode read_node(const onnx::NodeProto& proto, const std::string& file,
                   const std::string& folder) {
  OnnxNode node;
  node.name = proto.name();
  node.type = proto.op_type();
  node.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  const std::string where = fmt::format("{}: node \"{}\" ({})", file, node.name, node.type);
  for (const auto& attribute : proto.attribute()) {
    node.attributes[attribute.name()] = read_attribute(attribute, where, folder);
  }
  return node;
}

OnnxValue read_value(const onnx::ValueInfoProto& proto) {
  OnnxValue value;
  value.name = proto.name();
  if (!proto.type().has_tensor_type()) {
    value.other_type = "no tensor";
    return value;
  }
  const auto& type = proto.type().tensor_type();
  const auto dtype = dtype_of(type.elem_type());
  value.declared = type_name(type.elem_type());
  if (dtype) {
    value.dtype = *dtype;
  } else {
    value.other_type = type_name(type.elem_type());
  }
  value.has_shape = type.has_shape();
  for (const auto& dim : type.shape().dim()) {
    OnnxDim read;
    if (dim.has_dim_value()) read.size = dim.dim_value();
    read.symbol = dim.dim_param();
    value.dims.push_back(std::move(read));
  }
  return value;
}

void check_opset(OnnxModel& model, const onnx::ModelProto& proto, const std::string& file) {
  bool found = false;
  for (const auto& import : proto.opset_import()) {
    if (!import.domain().empty() && import.domain() != "ai.onnx") continue;
    model.opset = import.version();
    found = true;
  }
  if (found && model.opset >= kOldestOpset && model.opset <= kNewestOpset) return;
  throw InputError(
      file,
      fmt::format("is of opset {}, expected {} to {}; export it anew for one of these",
                  found ? fmt::format("{}", model.opset) : "none", kOldestOpset, kNewestOpset));
}

onnx::TensorProto::DataType type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return onnx::TensorProto::FLOAT;
    case DType::kFloat64:
      return onnx::TensorProto::DOUBLE;
    case DType::kInt64:
      return onnx::TensorProto::INT64;
    case DType::kBool:
      return onnx::TensorProto::BOOL;
  }
  GP_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

void write_tensor(const OnnxTensor& tensor, onnx::TensorProto& proto) {
  proto.set_name(tensor.name);
  proto.set_data_type(type_of(tensor.dtype));
  for (const std::int64_t d : tensor.shape) proto.add_dims(d);
  proto.set_raw_data(tensor.bytes);
}

struct AttributeWriter {
  onnx::AttributeProto& proto;
  void operator()(std::monostate) const { GP_CHECK(false, "an attribute without a value"); }
  void operator()(std::int64_t x) const {
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(x);
  }
  void operator()(double x) const {
    proto.set_type(onnx::AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(x));
  }
  void operator()(const std::string& x) const {
    proto.set_type(onnx::AttributeProto::STRING);
    proto.set_s(x);
  }
  void operator()(const std::vector<std::int64_t>& xs) const {
    proto.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t x : xs) proto.add_ints(x);
  }
  void operator()(const std::vector<double>& xs) const {
    proto.set_type(onnx::AttributeProto::FLOATS);
    for (const double x : xs) proto.add_floats(static_cast<float>(x));
  }
  void operator()(const OnnxTensor& x) const {
    proto.set_type(onnx::AttributeProto::TENSOR);
    write_tensor(x, *proto.mutable_t());
  }
};

void write_value(const OnnxValue& value, onnx::ValueInfoProto& proto) {
  proto.set_name(value.name);
  auto& type = *proto.mutable_type()->mutable_tensor_type();
  type.set_elem_type(type_of(value.dtype));
  auto& shape = *type.mutable_shape();
  for (const OnnxDim& dim : value.dims) {
    auto& written = *shape.add_dim();
    if (dim.size >= 0) {
      written.set_dim_value(dim.size);
    } else {
      written.set_dim_param(dim.symbol);
    }
  }
}

void check(const onnx::ModelProto& proto, const std::string& file) {
  try {
    onnx::checker::check_model(proto);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw InputError(file, "ONNX's checker refuses it: " + text.substr(0, text.find('\n')));
  }
}

}  // namespace

OnnxModel parse_onnx(std::string_view bytes, const std::string& file, const std::string& folder) {
  onnx::ModelProto proto;
  parse_message(proto, bytes, file);
  if (proto.graph().node_size() > kMostNodes) {
    throw InputError(file, fmt::format("has {} nodes, expected at most {}",
                                       proto.graph().node_size(), kMostNodes));
  }
  OnnxModel model;
  check_opset(model, proto, file);
  model.name = proto.graph().name();
  if (!is_utf8(model.name)) throw InputError(file, "the name of its graph is not UTF-8");
  std::set<std::string> initialized;
  for (const auto& tensor : proto.graph().initializer()) {
    model.initializers.push_back(TensorReader(tensor, file, folder).read());
    initialized.insert(tensor.name());
  }
  if (proto.graph().sparse_initializer_size() > 0) {
    throw InputError(file, "has sparse weights, which are not supported");
  }
  for (const auto& node : proto.graph().node()) {
    model.nodes.push_back(read_node(node, file, folder));
  }
  for (const auto& input : proto.graph().input()) {
    if (!initialized.contains(input.name())) model.inputs.push_back(read_value(input));
  }
  for (const auto& output : proto.graph().output()) model.outputs.push_back(read_value(output));
  return model;
}

OnnxTensor parse_onnx_tensor(std::string_view bytes, const std::string& file) {
  onnx::TensorProto proto;
  parse_message(proto, bytes, file);
  return TensorReader(proto, file, "").read();
}

std::string to_onnx(const OnnxModel& model) {
  onnx::ModelProto proto;
  proto.set_ir_version(kIrVersion);
  proto.set_producer_name("graphpipe");
  proto.set_producer_version(GP_VERSION);
  auto& opset = *proto.add_opset_import();
  opset.set_domain("");
  opset.set_version(model.opset);
  auto& graph = *proto.mutable_graph();
  graph.set_name(model.name);
  for (const OnnxNode& node : model.nodes) {
    auto& written = *graph.add_node();
    written.set_name(node.name);
    written.set_op_type(node.type);
    for (const std::string& input : node.inputs) written.add_input(input);
    for (const std::string& output : node.outputs) written.add_output(output);
    for (const auto& [name, value] : node.attributes) {
      auto& attribute = *written.add_attribute();
      attribute.set_name(name);
      std::visit(AttributeWriter{attribute}, value);
    }
  }
  for (const OnnxTensor& tensor : model.initializers) {
    write_tensor(tensor, *graph.add_initializer());
  }
  for (const OnnxValue& input : model.inputs) write_value(input, *graph.add_input());
  for (const OnnxValue& output : model.outputs) write_value(output, *graph.add_output());
  check(proto, "the ONNX model that is written");
  std::string bytes;
  if (!proto.SerializeToString(&bytes)) {
    throw InputError("the ONNX model that is written", "is larger than the 2 GiB of a file");
  }
  return bytes;
}

std::string onnx_libraries() {
  return fmt::format("ONNX opset {} to {}, protobuf {}", kOldestOpset, kNewestOpset,
                     google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION));
}

}  // namespace graphpipe

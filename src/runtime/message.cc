#include "runtime/message.h"

#include <fmt/format.h>

#include <cstring>

#include "base/hash.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kTensorAlignment = 64;

std::int64_t padded(std::int64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

template <typename T>
std::optional<std::string> differs(const char* field, const T& expected, const T& got) {
  if (expected == got) return std::nullopt;
  return fmt::format("{}: expected {}, got {}", field, expected, got);
}

std::optional<std::string> hash_differs(const char* field, std::uint64_t expected,
                                        std::uint64_t got) {
  if (expected == got) return std::nullopt;
  return differs(field, hash_text(expected), hash_text(got));
}

std::string samples_text(const MessageHeader& header) {
  return fmt::format("[{},{})", header.lo, header.hi);
}

const char* direction_text(const MessageHeader& header) {
  return header.direction == static_cast<std::int32_t>(Direction::kForward) ? "forward"
                                                                            : "backward";
}

}  // namespace

MessageLayout::MessageLayout(const Graph& graph, const StageEdge& edge, Direction direction,
                             const std::vector<bool>& needs) {
  for (const TensorId id : edge.tensors) {
    if (direction == Direction::kBackward && !needs[id.index()]) continue;
    const Tensor& tensor = graph.tensor(id);
    tensors_.push_back(id);
    bytes_per_sample_.push_back(graphpipe::tensor_bytes(tensor, 1));
    digest_ = combine_hash(digest_, static_cast<std::uint64_t>(id.value));
    digest_ = combine_hash(digest_, static_cast<std::uint64_t>(tensor.dtype));
    for (const std::int64_t d : tensor.shape) {
      digest_ = combine_hash(digest_, static_cast<std::uint64_t>(d));
    }
  }
}

std::int64_t MessageLayout::tensor_bytes(std::size_t i, std::int64_t samples) const {
  return bytes_per_sample_[i] * samples;
}

std::int64_t MessageLayout::tensor_offset(std::size_t i, std::int64_t samples) const {
  std::int64_t offset = kMessageHeaderBytes;
  for (std::size_t k = 0; k < i; ++k) offset += padded(tensor_bytes(k, samples));
  return offset;
}

std::int64_t MessageLayout::ids_offset(std::int64_t samples) const {
  return tensor_offset(tensors_.size(), samples);
}

std::int64_t MessageLayout::bytes(std::int64_t samples) const {
  return ids_offset(samples) + samples * static_cast<std::int64_t>(sizeof(std::int64_t));
}

std::optional<std::string> header_fault(const MessageHeader& expected, const MessageHeader& got) {
  if (auto fault = hash_differs("magic number", expected.magic, got.magic)) return fault;
  if (auto fault = hash_differs("plan", expected.plan, got.plan)) return fault;
  if (auto fault = differs("edge", expected.edge, got.edge)) return fault;
  if (expected.direction != got.direction) {
    return fmt::format("direction: expected {}, got {}", direction_text(expected),
                       direction_text(got));
  }
  if (expected.training != got.training) {
    return fmt::format("phase: expected {}, got {}", expected.training ? "training" : "evaluation",
                       got.training ? "training" : "evaluation");
  }
  if (auto fault = differs("iteration", expected.iteration, got.iteration)) return fault;
  if (expected.lo != got.lo || expected.hi != got.hi) {
    return differs("samples", samples_text(expected), samples_text(got));
  }
  if (auto fault = differs("sequence number", expected.sequence, got.sequence)) return fault;
  if (auto fault = differs("number of tensors", expected.tensor_count, got.tensor_count)) {
    return fault;
  }
  if (auto fault = hash_differs("tensors' types and shapes", expected.tensors, got.tensors)) {
    return fault;
  }
  return differs("bytes", expected.bytes, got.bytes);
}

std::optional<std::string> ids_fault(std::span<const std::int64_t> expected, const std::byte* got,
                                     std::int64_t first_sample) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::int64_t id = 0;
    std::memcpy(&id, got + i * sizeof id, sizeof id);
    if (id != expected[i]) {
      return fmt::format("sample {} of the mini-batch: expected id {}, got {}",
                         first_sample + static_cast<std::int64_t>(i), expected[i], id);
    }
  }
  return std::nullopt;
}

}  // namespace graphpipe

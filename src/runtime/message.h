// What goes over the wire: the header of a message, and where its parts lie.
//
//   offset 0     header, kMessageHeaderBytes
//   128          the edge's tensors in the order of their ids, each padded to 64 bytes
//   then         the sample ids, 8 bytes each
//
// Both ends know all of this beforehand, the size included (Gloo has no way to say it).
// The header is there to be compared: a message that is not the one that was waited for
// is an error with a name, and never trained on.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"
#include "plan/stage_memory.h"
#include "schedule/schedule.h"

namespace graphpipe {

struct MessageHeader {
  std::uint64_t magic = 0;
  std::uint64_t plan = 0;     // plan_hash()
  std::uint64_t tensors = 0;  // digest of the tensors' ids, dtypes and shapes
  std::int64_t iteration = 0;
  std::int64_t sequence = 0;  // of the channel, from 0 over the whole run
  std::int64_t lo = 0;        // samples of the mini-batch
  std::int64_t hi = 0;
  std::int64_t bytes = 0;  // of the whole message
  std::int32_t edge = 0;
  std::int32_t direction = 0;
  std::int32_t tensor_count = 0;
  std::int32_t training = 0;  // 0: evaluation
  std::byte reserved[48] = {};
  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;
};
static_assert(sizeof(MessageHeader) == kMessageHeaderBytes);

// The messages of one edge in one direction: which tensors they carry, and where.
class MessageLayout {
 public:
  // Backward messages carry the tensors that a gradient flows into. `needs` is
  // needs_gradient().
  MessageLayout(const Graph& graph, const StageEdge& edge, Direction direction,
                const std::vector<bool>& needs);

  const std::vector<TensorId>& tensors() const { return tensors_; }
  std::uint64_t digest() const { return digest_; }
  std::int64_t tensor_offset(std::size_t i, std::int64_t samples) const;
  std::int64_t tensor_bytes(std::size_t i, std::int64_t samples) const;
  std::int64_t ids_offset(std::int64_t samples) const;
  std::int64_t bytes(std::int64_t samples) const;  // message_bytes()

 private:
  std::vector<TensorId> tensors_;
  std::vector<std::int64_t> bytes_per_sample_;
  std::uint64_t digest_ = 0;
};

inline constexpr std::uint64_t kMessageMagic = 0x6770697065303031ULL;  // "gpipe001"

// The first field that differs, as "sequence number: expected 7, got 6".
std::optional<std::string> header_fault(const MessageHeader& expected, const MessageHeader& got);

// The first sample id that differs, as "sample 5 of the mini-batch: expected id 17, got 23".
// `got` need not be aligned.
std::optional<std::string> ids_fault(std::span<const std::int64_t> expected, const std::byte* got,
                                     std::int64_t first_sample);

}  // namespace graphpipe

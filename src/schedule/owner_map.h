// Which rank computes which samples. The only place that knows: lowering, simulator
// and runtime ask here.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace graphpipe {

struct SampleOwner {
  int replica = 0;      // of the stage
  SampleRange samples;  // may be empty: a split replica with no share of a short batch
  friend bool operator==(const SampleOwner&, const SampleOwner&) = default;
};

// Micro-batches of a stage in a mini-batch of `samples`: ceil(samples / b).
std::int64_t micro_batch_count(const Stage& stage, std::int64_t samples);

// The samples of one micro-batch; the last may be short.
SampleRange micro_batch_samples(const Stage& stage, std::int64_t micro_batch, std::int64_t samples);

// Who computes micro-batch i. Split: every replica, in contiguous shares of
// ceil(n / d) samples for n samples on d devices, the last shares short or empty. Round
// robin: replica i mod d alone.
std::vector<SampleOwner> owners(const Stage& stage, std::int64_t micro_batch, std::int64_t samples);

// What one replica computes of micro-batch i: its entry of owners(), empty where it has none.
SampleRange replica_samples(const Stage& stage, int replica, std::int64_t micro_batch,
                            std::int64_t samples);

// A stage's task that computes some samples of `range`, with the part of the range.
struct OwnedPart {
  std::int64_t micro_batch = 0;
  int replica = 0;
  SampleRange samples;  // not empty
  friend bool operator==(const OwnedPart&, const OwnedPart&) = default;
};

// All tasks of the stage that hold samples of the range, by sample. The order in which
// messages are exchanged and gradients summed.
std::vector<OwnedPart> owned_parts(const Stage& stage, SampleRange range, std::int64_t samples);

std::string samples_text(SampleRange samples);  // "[4,8)"

}  // namespace graphpipe

#include "data/index_stream.h"

#include <algorithm>
#include <utility>

#include "base/counter_random.h"
#include "base/error.h"

namespace graphpipe {

IndexStream::IndexStream(std::vector<std::int64_t> ids, std::int64_t mini_batch, std::uint64_t seed)
    : ids_(std::move(ids)), mini_batch_(mini_batch), seed_(seed) {
  GP_CHECK(!ids_.empty() && mini_batch_ > 0, "{} samples in mini-batches of {}", ids_.size(),
           mini_batch_);
}

std::int64_t IndexStream::iterations_per_epoch() const {
  const auto samples = static_cast<std::int64_t>(ids_.size());
  return (samples + mini_batch_ - 1) / mini_batch_;
}

std::vector<std::int64_t> IndexStream::mini_batch(std::int64_t iteration) const {
  GP_CHECK(iteration >= 0, "iteration {}", iteration);
  const std::int64_t epoch = iteration / iterations_per_epoch();
  if (epoch != shuffled_epoch_) {
    // From the ids as given, so that an epoch does not depend on those before it.
    shuffled_ = ids_;
    shuffle_by_key(shuffled_, combine_hash(combine_hash(seed_, hash_bytes("epoch")),
                                           static_cast<std::uint64_t>(epoch)));
    shuffled_epoch_ = epoch;
  }
  const std::int64_t begin = iteration % iterations_per_epoch() * mini_batch_;
  const std::int64_t end = begin + mini_batch_samples(iteration);
  return {shuffled_.begin() + begin, shuffled_.begin() + end};
}

std::int64_t IndexStream::mini_batch_samples(std::int64_t iteration) const {
  const std::int64_t begin = iteration % iterations_per_epoch() * mini_batch_;
  return std::min(mini_batch_, static_cast<std::int64_t>(ids_.size()) - begin);
}

}  // namespace graphpipe

// The one index stream that feeds all branches and labels: which samples make
// mini-batch i. A pure function, so every rank computes the same without a message.

#pragma once

#include <cstdint>
#include <vector>

namespace graphpipe {

class IndexStream {
 public:
  // `ids` are shuffled anew each epoch by (seed, epoch). The last mini-batch of an epoch
  // may be short.
  IndexStream(std::vector<std::int64_t> ids, std::int64_t mini_batch, std::uint64_t seed);
  std::int64_t iterations_per_epoch() const;
  // The samples of iteration i, counted from 0 over all epochs.
  std::vector<std::int64_t> mini_batch(std::int64_t iteration) const;
  std::int64_t mini_batch_samples(std::int64_t iteration) const;  // how many, without a shuffle

 private:
  std::vector<std::int64_t> ids_;
  std::int64_t mini_batch_;
  std::uint64_t seed_;
  mutable std::int64_t shuffled_epoch_ = -1;
  mutable std::vector<std::int64_t> shuffled_;
};

}  // namespace graphpipe

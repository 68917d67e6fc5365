// What a candidate stage's tensors and parameters add up to, for any number of samples:
// its traffic and the parts of its memory. Independent of micro-batch and width, so
// computed once per set of operators.

#pragma once

#include <cstdint>
#include <vector>

#include "planners/graphpipe/pieces.h"

namespace graphpipe {

// Bytes of n samples: constant + n * per sample.
struct LinearBytes {
  std::int64_t per_sample = 0;
  std::int64_t constant = 0;
  std::int64_t of(std::int64_t samples) const { return constant + samples * per_sample; }
  void add(const TensorSize& tensor, std::int64_t times) {
    per_sample += times * tensor.per_sample_bytes;
    constant += times * tensor.constant_bytes;
  }
};

struct StageSums {
  int crossing = 0;  // tensors that cross the stage's border
  LinearBytes in;    // per micro-batch, forward and backward; each tensor once
  LinearBytes out;
  LinearBytes saved;      // tensors kept from forward to backward
  LinearBytes inputs;     // of these, those that others make
  int with_gradient = 0;  // tensors of the stage that have one: none, and it has no backward
  std::int64_t static_bytes = 0;
  std::int64_t step_bytes = 0;  // temporaries of the optimiser's step
  std::int64_t gradient_bytes = 0;
  std::int64_t largest_gradient_bytes = 0;  // of one parameter
  int tied_params = 0;                      // that other stages hold too
  // Bounds of what messages hold. A tensor counts once for each message that may carry
  // it: inwards once, outwards once for each reader; and once for each direction.
  LinearBytes messages;
  LinearBytes messages_between;  // the same, each times its TensorUse::between
  std::int64_t message_count = 0;
  std::int64_t message_count_between = 0;
};

// Adds up a set of positions. They may come in any order.
class StageAccumulator {
 public:
  explicit StageAccumulator(const Pieces& pieces);
  void add(int position);
  void add(Span span);
  const StageSums& sums() const { return sums_; }
  void clear();

 private:
  void read(const TensorUse& use);
  void make(int tensor);
  void count_inward(int tensor, std::int64_t times);
  void count_message(const TensorSize& tensor, std::int64_t times, std::int64_t between);

  const Pieces& pieces_;
  StageSums sums_;
  std::vector<int> members_;
  std::vector<char> is_member_;                // [position]
  std::vector<int> readers_;                   // [tensor]: members that read it
  std::vector<std::int64_t> readers_between_;  // [tensor]: the sum of their `between`
  std::vector<int> inward_between_;            // [tensor]: as it was counted inwards
  std::vector<int> holders_;                   // [parameter]: members that hold it
};

}  // namespace graphpipe

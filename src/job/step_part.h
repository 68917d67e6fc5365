// Which part of an optimiser's step an iteration is, where several mini-batches make one
// step (gradient accumulation).

#pragma once

#include <cstdint>
#include <functional>

namespace graphpipe {

struct StepPart {
  std::int64_t step = 0;     // from 0
  std::int64_t samples = 0;  // of all mini-batches of the step: what a mean over samples
                             // divides by
  bool first = true;         // gradients start anew
  bool last = true;          // then comes the step
  friend bool operator==(const StepPart&, const StepPart&) = default;
};

// Iteration i is part of step i / accumulate. The last step of `total` iterations (0: it is
// not known how many there will be) is made of what is left. samples(i): of the mini-batch of
// iteration i. Requires: accumulate >= 1, 0 <= iteration, and < total where it is known.
StepPart step_part(std::int64_t accumulate, std::int64_t iteration, std::int64_t total,
                   const std::function<std::int64_t(std::int64_t)>& samples);

}  // namespace graphpipe

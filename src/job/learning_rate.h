// How the learning rate changes with the optimiser's steps.

#pragma once

#include <cstdint>
#include <string>

namespace graphpipe {

enum class RateKind {
  kConstant,
  kStep,    // times `factor` after every `every` steps
  kCosine,  // half a cosine, down to 0 at step `total`
};

struct RateSchedule {
  RateKind kind = RateKind::kConstant;
  std::int64_t every = 1;   // steps, at least 1
  double factor = 1;        // positive
  std::int64_t total = 1;   // steps, at least 1
  std::int64_t warmup = 0;  // steps in which a cosine's rate first rises from 0; below total
  friend bool operator==(const RateSchedule&, const RateSchedule&) = default;
};

// "constant", "step:EVERY,FACTOR", "cosine:TOTAL" or "cosine:TOTAL,WARMUP", and back.
// Throws InputError(where, ...) that says which part is wrong.
RateSchedule parse_rate_schedule(const std::string& text, const std::string& where);
std::string to_text(const RateSchedule& schedule);

// The rate of step `step`, from 0, where `rate` is the full one:
//   constant  rate
//   step      rate * factor ^ floor(step / every)
//   cosine    rate * step / warmup                                    while step < warmup
//             rate * (1 + cos(pi * (step - warmup) / (total - warmup))) / 2   up to total
//             0                                                       from there on
// (Loshchilov and Hutter, 2017, without restarts.)
double scheduled_rate(double rate, const RateSchedule& schedule, std::int64_t step);

}  // namespace graphpipe

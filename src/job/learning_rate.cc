#include "job/learning_rate.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace graphpipe {
namespace {

std::int64_t parse_steps(const std::string& text, std::int64_t low, const char* what,
                         const std::string& where) {
  const std::int64_t steps = parse_integer(text, where);
  if (steps >= low) return steps;
  throw InputError(where, fmt::format("{} is {}, expected at least {}", what, steps, low));
}

double parse_factor(const std::string& text, const std::string& where) {
  const double factor = parse_number(text, where);
  if (factor > 0) return factor;
  throw InputError(where, fmt::format("FACTOR is {}, expected a number above 0", text));
}

RateSchedule parse_step(const std::vector<std::string>& numbers, const std::string& where) {
  RateSchedule schedule;
  schedule.kind = RateKind::kStep;
  schedule.every = parse_steps(numbers[0], 1, "EVERY", where);
  schedule.factor = parse_factor(numbers[1], where);
  return schedule;
}

RateSchedule parse_cosine(const std::vector<std::string>& numbers, const std::string& where) {
  RateSchedule schedule;
  schedule.kind = RateKind::kCosine;
  schedule.total = parse_steps(numbers[0], 1, "TOTAL", where);
  if (numbers.size() > 1) schedule.warmup = parse_steps(numbers[1], 0, "WARMUP", where);
  if (schedule.warmup >= schedule.total) {
    throw InputError(where, fmt::format("WARMUP is {}, expected less than TOTAL, which is {}",
                                        schedule.warmup, schedule.total));
  }
  return schedule;
}

}  // namespace

RateSchedule parse_rate_schedule(const std::string& text, const std::string& where) {
  if (text == "constant") return {};
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  std::vector<std::string> numbers;
  if (colon != std::string::npos) numbers = split_text(text.substr(colon + 1), ',');
  if (name == "step" && numbers.size() == 2) return parse_step(numbers, where);
  if (name == "cosine" && (numbers.size() == 1 || numbers.size() == 2)) {
    return parse_cosine(numbers, where);
  }
  throw InputError(where, fmt::format("expected constant, step:EVERY,FACTOR or "
                                      "cosine:TOTAL[,WARMUP], found \"{}\"",
                                      text));
}

std::string to_text(const RateSchedule& schedule) {
  switch (schedule.kind) {
    case RateKind::kConstant:
      return "constant";
    case RateKind::kStep:
      return fmt::format("step:{},{}", schedule.every, schedule.factor);
    case RateKind::kCosine:
      if (schedule.warmup == 0) return fmt::format("cosine:{}", schedule.total);
      return fmt::format("cosine:{},{}", schedule.total, schedule.warmup);
  }
  GP_CHECK(false, "rate schedule {}", static_cast<int>(schedule.kind));
}

double scheduled_rate(double rate, const RateSchedule& schedule, std::int64_t step) {
  switch (schedule.kind) {
    case RateKind::kConstant:
      return rate;
    case RateKind::kStep: {
      const std::int64_t times = step / schedule.every;
      return rate * std::pow(schedule.factor, static_cast<double>(times));
    }
    case RateKind::kCosine: {
      const auto at = static_cast<double>(step);
      const auto warmup = static_cast<double>(schedule.warmup);
      if (step < schedule.warmup) return rate * at / warmup;
      if (step >= schedule.total) return 0;
      const double share = (at - warmup) / (static_cast<double>(schedule.total) - warmup);
      return rate * (1 + std::cos(std::numbers::pi * share)) / 2;
    }
  }
  GP_CHECK(false, "rate schedule {}", static_cast<int>(schedule.kind));
}

}  // namespace graphpipe

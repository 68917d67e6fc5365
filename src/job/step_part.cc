#include "job/step_part.h"

#include <algorithm>

#include "base/error.h"

namespace graphpipe {

StepPart step_part(std::int64_t accumulate, std::int64_t iteration, std::int64_t total,
                   const std::function<std::int64_t(std::int64_t)>& samples) {
  GP_CHECK(accumulate >= 1 && iteration >= 0 && (total == 0 || iteration < total),
           "iteration {} of {}, {} a step", iteration, total, accumulate);
  StepPart part;
  part.step = iteration / accumulate;
  const std::int64_t begin = part.step * accumulate;
  std::int64_t end = begin + accumulate;
  if (total > 0) end = std::min(end, total);
  for (std::int64_t i = begin; i < end; ++i) part.samples += samples(i);
  part.first = iteration == begin;
  part.last = iteration + 1 == end;
  return part;
}

}  // namespace graphpipe

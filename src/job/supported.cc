#include "job/supported.h"

#include <fmt/format.h>

#include "base/error.h"

namespace graphpipe {

void check_supported(const Plan& plan, const Graph& /*graph*/) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (!plan.stages[s].recompute) continue;
    throw InputError(fmt::format("plan: /stages/{}", s),
                     "recomputes its forward; training keeps what it needs instead: "
                     "plan without recompute in --options");
  }
}

}  // namespace graphpipe

#include "job/supported.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "plan/stage_memory.h"

namespace graphpipe {

void check_supported(const Plan& plan, const Graph& graph) {
  std::map<ParamId, std::size_t> holder;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const std::string where = fmt::format("plan: /stages/{}", s);
    if (stage.devices.size() > 1) {
      throw InputError(where, fmt::format("runs on {} devices; training runs stages of one "
                                          "device each: plan with --options none",
                                          stage.devices.size()));
    }
    if (stage.recompute) {
      throw InputError(where,
                       "recomputes its forward; training keeps what it needs instead: "
                       "plan without recompute in --options");
    }
    for (const ParamId param : stage_params(graph, stage.ops)) {
      const auto [at, is_new] = holder.emplace(param, s);
      if (is_new) continue;
      throw InputError(where, fmt::format("holds parameter \"{}\", which stage {} holds too; "
                                          "training keeps a parameter in one stage: put the "
                                          "operators that share it together",
                                          graph.param(param).name, at->second));
    }
  }
}

}  // namespace graphpipe

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "planners/alpa/alpa.h"
#include "planners/dapple/dapple.h"
#include "planners/data_parallel/data_parallel.h"
#include "planners/gpipe/gpipe.h"
#include "planners/graphpipe/graphpipe.h"
#include "planners/max_load/max_load.h"
#include "planners/pipedream/pipedream.h"
#include "planners/piper/piper.h"
#include "planners/planner.h"

namespace graphpipe {

const std::vector<Planner>& planners() {
  static const std::vector<Planner> all = {
      {"graphpipe", "graph pipeline over series-parallel pieces (Jeon et al., ASPLOS 2025)",
       plan_graphpipe, true},
      {"pipedream", "1F1B chain by PipeDream's partition (Narayanan et al., SOSP 2019)",
       plan_pipedream},
      {"piper", "sequential pipeline over downsets (Tarnawski et al., NeurIPS 2021)", plan_piper},
      {"max-load",
       "optimal contiguous partition, one device a stage (Tarnawski et al., NeurIPS 2020)",
       plan_max_load},
      {"dapple", "replicated chain with the shortest iteration (Fan et al., PPoPP 2021)",
       plan_dapple},
      {"alpa", "chain on sub-meshes that fill the cluster (Zheng et al., OSDI 2022)", plan_alpa},
      {"gpipe", "equal-cost chain, all forwards then all backwards (Huang et al., NeurIPS 2019)",
       plan_gpipe},
      {"data-parallel", "every operator on every device", plan_data_parallel},
  };
  return all;
}

const Planner& planner_named(const std::string& name) {
  std::vector<std::string> names;
  std::string list;
  for (const Planner& planner : planners()) {
    if (planner.name == name) return planner;
    names.push_back(planner.name);
    list += (list.empty() ? "" : ", ") + planner.name;
  }
  const std::string near = nearest_word(name, names);
  throw InputError("--planner",
                   fmt::format("no planner is called \"{}\"{}; planners: {}", name,
                               near.empty() ? "" : fmt::format(" (did you mean {}?)", near), list));
}

}  // namespace graphpipe

// What commands print with --json; the fields are those that scripts rely on
// (docs/formats.md).

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/machine.h"
#include "job/train_lines.h"
#include "models/models.h"
#include "planners/planner.h"
#include "report/text_report.h"
#include "schedule/schedule.h"
#include "schedule/trace.h"
#include "schedule/verify.h"
#include "search/search.h"
#include "sim/simulator.h"

namespace graphpipe {

struct ModelSummary {
  std::int64_t operators = 0;
  std::int64_t parameters = 0;
  std::int64_t parameter_bytes = 0;
  double forward_flops_per_sample = 0;
  int branches = 1;
  bool series_parallel = true;
  std::int64_t added_order_pairs = 0;  // SpTree's
  double path_stretch = 0;
};

std::string models_json(const std::vector<ZooModel>& models);
std::string show_json(const Graph& graph, const ModelSummary& summary);
std::string no_plan_json(const Problem& problem, const std::string& planner,
                         const SearchResult& result);
// `search_s` goes with the rows.
std::string compare_json(const std::vector<ComparedPlan>& rows, const std::vector<double>& search_s,
                         const Problem& problem);
// `steady`: of an asynchronous plan.
std::string simulate_json(const Trace& trace, const std::optional<SteadyState>& steady,
                          const Schedule& schedule, const Plan& plan);
std::string verify_json(const Verification& verification);
std::string doctor_json(const std::vector<Finding>& findings);

std::string json_library();  // "nlohmann-json 3.11.2"

// What tells a plan's graph from this one: the first operator that differs. `plan_json` is
// the text of a plan that parse_plan() took.
std::string plan_difference(const std::string& plan_json, const Graph& graph);

}  // namespace graphpipe

// What commands print with --json; the fields are those that scripts rely on
// (docs/formats.md).

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/models.h"
#include "planners/planner.h"
#include "report/text_report.h"
#include "schedule/schedule.h"
#include "schedule/trace.h"
#include "schedule/verify.h"
#include "search/search.h"

namespace graphpipe {

struct ModelSummary {
  std::int64_t operators = 0;
  std::int64_t parameters = 0;
  std::int64_t parameter_bytes = 0;
  double forward_flops_per_sample = 0;
  int branches = 1;
  bool series_parallel = true;
};

std::string models_json(const std::vector<ZooModel>& models);
std::string show_json(const Graph& graph, const ModelSummary& summary);
std::string no_plan_json(const Problem& problem, const std::string& planner,
                         const SearchResult& result);
std::string compare_json(const std::vector<ComparedPlan>& rows, const Problem& problem);
std::string simulate_json(const Trace& trace, const Schedule& schedule);
std::string verify_json(const Verification& verification);

// A line that a worker of a training run writes.
struct TrainLine {
  std::optional<std::int64_t> iteration;  // a logged iteration
  double loss = 0;
  double samples_per_s = 0;
  double epoch = 0;
  std::map<std::string, double> validation;  // an evaluation
  bool done = false;                         // the last line
  std::map<std::string, double> metrics;
  std::map<std::string, double> numbers;     // every other number at top level
  std::vector<MeasuredStage> stages;
};
// Empty where the line is no JSON object.
std::optional<TrainLine> parse_train_line(const std::string& line);

}  // namespace graphpipe

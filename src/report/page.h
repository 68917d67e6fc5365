// The report: one HTML page that holds its programs, styles and data, and asks for nothing else.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "report/measured_trace.h"
#include "schedule/schedule.h"
#include "schedule/trace.h"

namespace graphpipe {

// What of an iteration is on the page beside its numbers. Beyond so many tasks a browser is slow.
inline constexpr std::int64_t kMostPageTasks = 200'000;

struct PagePlan {
  std::string file;
  Plan plan;  // with the simulated estimate
  const Graph* graph = nullptr;
  const Cluster* cluster = nullptr;
  Schedule programs;  // lowered
  Trace trace;        // simulated; without events the page has no timeline
  std::optional<MeasuredTrace> measured;
};

// Why this program has no page; "": it has one. The page is bundled when graphpipe is built,
// which takes Node.js.
std::string page_missing();

// The page of the plans, in this order. Requires: page_missing() is "".
std::string report_page(const std::vector<PagePlan>& plans);

// Its data, which the page reads (docs/report.md).
std::string page_data_json(const std::vector<PagePlan>& plans);

}  // namespace graphpipe

// Plans and traces for a terminal.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "cost/cost_model.h"
#include "graph/series_parallel.h"
#include "plan/plan.h"
#include "schedule/schedule.h"
#include "schedule/trace.h"

namespace graphpipe {

// The summary line, then a row a stage: operators (first .. last and count), devices,
// micro-batch, in flight, memory by part, time per sample; then edges. Of more than 16 stages a
// row holds those that are alike (like_stages.h), unless every stage is asked for.
std::string plan_table(const Plan& plan, const Graph& graph, const Cluster& cluster,
                       const CostModel& costs, bool every_stage = false);

// The tree by pieces: one line a child of the root, branches indented, so that a model of a
// thousand operators stays readable.
std::string pieces_text(const SpTree& tree, const Graph& graph, int indent);

// What standing in for a graph that is not series-parallel costs: "an order that adds 3 pairs of
// operators to its dependencies and makes its longest path 12 % longer (in forward FLOPs)".
std::string added_order_text(const SpTree& tree);

// One line on operators that mix samples, whose results depend on how a mini-batch is cut: on
// one device, and over the plan's stages. "" where the graph has none.
std::string sample_mixing_note(const Graph& graph);
std::string sample_mixing_note(const Graph& graph, const Plan& plan);

// One row a plan: planner, status, depth, micro-batch, iteration, throughput, speed-up over
// the slowest that is ok, bubble, peak memory, gap.
struct ComparedPlan {
  std::string planner;
  std::string status;
  std::string reason;
  Plan plan;  // status ok
};
std::string compare_table(const std::vector<ComparedPlan>& plans, bool markdown = false);

// The schedule as a grid: a row a rank, a column a time slot, F and B with their
// micro-batch, dots where the rank idles, from a simulated trace with events. At most
// `columns` characters wide: longer traces are cut after the warm-up and the end shown. Of more
// than 16 ranks those that do the same at the same times are one row. With `colours`, in those of a
// terminal: forwards blue, backwards yellow, idle dim.
std::string schedule_grid(const Trace& trace, const Schedule& schedule, const Plan& plan,
                          int columns, bool colours = false);

// What a stage was expected to take in an iteration and what it took.
struct MeasuredStage {
  int stage = 0;
  double predicted_s = 0;  // computing
  double measured_s = 0;
  std::int64_t predicted_peak_bytes = 0;  // on its fullest rank
  std::int64_t measured_peak_bytes = 0;
  std::int64_t bytes_sent = 0;
};
// Of the whole run; 0: not known.
struct MeasuredRun {
  double predicted_iteration_s = 0;
  double measured_iteration_s = 0;
  int ranks = 0;  // on one machine
  int cores = 0;  // of that machine
};

// A row a stage, predicted against measured with their ratio, and a line that names the
// likely culprit: what departs most from its prediction.
std::string measured_table(const std::vector<MeasuredStage>& stages, const MeasuredRun& run = {});

}  // namespace graphpipe

// From arguments to values: clusters, costs, problems, plan files.

#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "cost/cost_model.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "planners/planner.h"

namespace graphpipe {

// A cluster JSON file where the argument names one, a preset otherwise. Prints the
// cluster's note (ranks that share cores) to standard error. "embedded:8" is what the file of
// the MODEL argument carries.
Cluster load_cluster(const std::string& argument, const std::string& model);

// Prints what users of an imported profile should know to standard error.
void print_import_notes(const Graph& graph);

// The measured profile of that file, or the analytic model where it is "".
std::unique_ptr<CostModel> load_costs(const std::string& profile_path, const Graph& graph);

// The flags that plan and compare share.
struct ProblemFlags {
  std::string model;
  std::string cluster;
  std::int64_t mini_batch = 0;
  std::string micro_batch;  // "4" or "1,2,4"; "": all powers of two
  std::string profile;
  std::string options = "dp";  // "none", "dp", "recompute", "dp,recompute"
  std::string optimizer = "sgd";
  bool per_stage_micro_batch = false;
  std::string kfkb = "1";
  bool all_devices = false;
  double time_limit_s = 0;

  void add_to(CLI::App& command);
};

// Throws InputError where flags are given that none of the planners has a use for; notes on
// standard error where only some have.
void check_used(const ProblemFlags& flags, const std::vector<const Planner*>& planners);

// A Problem with all that it points to.
struct LoadedProblem {
  explicit LoadedProblem(const ProblemFlags& flags);
  Graph graph;
  Cluster cluster;
  std::unique_ptr<CostModel> costs;
  Problem problem;
};

PlanOptions parse_plan_options(const ProblemFlags& flags);
OptimizerKind parse_optimizer(const std::string& text, const std::string& where);
std::vector<std::int64_t> parse_integers(const std::string& text, const std::string& where);

// A plan file with the graph, cluster and costs that it was made for. Costs are the profile
// given, or else those named in the plan. Files that the plan names are looked up from the
// working directory, then from the plan's folder. Throws InputError where the plan is not
// valid, unless `checked` is false.
struct LoadedPlan {
  LoadedPlan(const std::string& path, const std::string& profile, bool checked = true);
  Plan plan;
  Graph graph;
  Cluster cluster;
  std::string profile_path;  // "": the analytic model
  std::unique_ptr<CostModel> costs;
  std::string other_graph;  // how the graph differs from the plan's; "": not at all
};

// Verifies the plan; where it cannot run, says the first fault on standard error. With
// `in_any_memory`, too little memory (V5) is noted and no reason to refuse.
bool can_run(const LoadedPlan& loaded, bool in_any_memory = false);

void print_out(const std::string& text);   // to standard output
void print_note(const std::string& text);  // "note: ..." to standard error

}  // namespace graphpipe

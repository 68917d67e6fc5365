#include "cli/inputs.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "cluster/cluster_json.h"
#include "cluster/presets.h"
#include "cost/analytic.h"
#include "cost/profile.h"
#include "cost/profile_json.h"
#include "models/models.h"
#include "plan/plan_json.h"
#include "schedule/verify.h"

namespace graphpipe {
namespace {

constexpr std::string_view kProfilePrefix = "profile ";

}  // namespace

std::string profile_of(const Plan& plan, const std::string& plan_path) {
  if (!plan.costs.starts_with(kProfilePrefix)) return "";
  const std::string path = plan.costs.substr(kProfilePrefix.size());
  if (std::filesystem::exists(path)) return path;
  throw InputError(plan_path,
                   fmt::format("the plan was made with the costs of {}, which is not there; give "
                               "--profile FILE",
                               path));
}

void print_out(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
}

void print_note(const std::string& text) { fmt::print(stderr, "note: {}\n", text); }

Cluster load_cluster(const std::string& argument) {
  Cluster cluster = std::filesystem::is_regular_file(argument)
                        ? parse_cluster(read_file(argument), argument)
                        : preset_cluster(argument);
  cluster.name = argument;
  if (const std::string note = cluster_note(cluster); !note.empty()) print_note(note);
  return cluster;
}

std::unique_ptr<CostModel> load_costs(const std::string& profile_path, const Graph& graph) {
  if (profile_path.empty()) return std::make_unique<AnalyticCosts>();
  Profile profile = parse_profile(read_file(profile_path), profile_path);
  if (profile.graph_hash != graph_hash(graph)) {
    print_note(fmt::format(
        "{} was measured for {}, another graph than {}: operators that it lacks take scaled "
        "analytic costs",
        profile_path, profile.model, graph.name));
  }
  return std::make_unique<ProfiledCosts>(std::move(profile), profile_path);
}

void ProblemFlags::add_to(CLI::App& command) {
  command.add_option("MODEL", model, "a zoo name with parameters (mmt:branches=2), or a file")
      ->required();
  command.add_option("--cluster", cluster, "a preset with a device count (summit:32), or a file")
      ->required();
  command.add_option("--mini-batch", mini_batch, "samples per weight update")->required();
  command.add_option("--micro-batch", micro_batch,
                     "samples per task, one or several (1,2,4); default: all powers of two");
  command.add_option("--profile", profile, "measured costs; default: the analytic model");
  command.add_option("--options", options, "what planners may use: none (width 1), dp")
      ->capture_default_str();
  command.add_option("--optimizer", optimizer, "for memory: sgd, sgd-momentum, adam")
      ->capture_default_str();
  command.add_option("--time-limit", time_limit_s, "seconds for a search; default: none");
}

std::vector<std::int64_t> parse_integers(const std::string& text, const std::string& where) {
  std::vector<std::int64_t> values;
  for (const std::string& item : split_text(text, ','))
    values.push_back(parse_integer(item, where));
  return values;
}

OptimizerKind parse_optimizer(const std::string& text, const std::string& where) {
  for (const auto kind : {OptimizerKind::kSgd, OptimizerKind::kSgdMomentum, OptimizerKind::kAdam}) {
    if (text == optimizer_name(kind)) return kind;
  }
  throw InputError(where, fmt::format("'{}' is none of sgd, sgd-momentum, adam", text));
}

PlanOptions parse_plan_options(const ProblemFlags& flags) {
  PlanOptions options;
  if (flags.options == "none") {
    options.data_parallel = false;
  } else if (flags.options != "dp") {
    throw InputError("--options",
                     fmt::format("'{}' is none of: none (every stage on one device), dp (stages on "
                                 "several devices)",
                                 flags.options));
  }
  options.micro_batches = parse_integers(flags.micro_batch, "--micro-batch");
  for (const std::int64_t b : options.micro_batches) {
    if (b < 1) throw InputError("--micro-batch", fmt::format("{} is not at least 1", b));
  }
  options.optimizer = parse_optimizer(flags.optimizer, "--optimizer");
  return options;
}

LoadedProblem::LoadedProblem(const ProblemFlags& flags)
    : graph(load_model(flags.model)), cluster(load_cluster(flags.cluster)) {
  if (flags.mini_batch < 1) {
    throw InputError("--mini-batch", fmt::format("{} is not at least 1", flags.mini_batch));
  }
  costs = load_costs(flags.profile, graph);
  problem.graph = &graph;
  problem.cluster = &cluster;
  problem.costs = costs.get();
  problem.mini_batch = flags.mini_batch;
  problem.options = parse_plan_options(flags);
  problem.model_argument = flags.model;
  problem.cluster_argument = flags.cluster;
}

LoadedPlan::LoadedPlan(const std::string& path, const std::string& profile_path)
    : plan(parse_plan(read_file(path), path)) {
  graph = load_model(plan.model);
  cluster = load_cluster(plan.cluster);
  validate(plan, graph, cluster, path);
  costs = load_costs(profile_path.empty() ? profile_of(plan, path) : profile_path, graph);
}

bool can_run(const LoadedPlan& loaded, bool in_any_memory) {
  const Verification verification =
      verify_plan(loaded.plan, loaded.graph, loaded.cluster, *loaded.costs);
  for (const Fault& fault : verification.faults) {
    const std::string text = fmt::format("{}: {}: {}", fault.where, fault.rule, fault.message);
    if (fault.rule == "V5" && in_any_memory) {
      print_note(text);
      continue;
    }
    fmt::print(stderr, "the plan cannot run: {}\n", text);
    return false;
  }
  return true;
}

}  // namespace graphpipe

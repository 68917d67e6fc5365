#include "cli/inputs.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "cli/cli_json.h"
#include "cli/terminal.h"
#include "cluster/cluster_json.h"
#include "cluster/presets.h"
#include "cost/analytic.h"
#include "cost/profile.h"
#include "cost/profile_json.h"
#include "models/imported_graph.h"
#include "models/models.h"
#include "plan/plan_json.h"
#include "schedule/verify.h"

namespace graphpipe {
namespace {

constexpr std::string_view kProfilePrefix = "profile ";

// Beyond these, bytes and the simulator's ticks come near what 64 bits hold.
constexpr std::int64_t kMostSamples = std::int64_t{1} << 26;
constexpr std::int64_t kMostInARow = 1024;
constexpr double kMostBytes = 0x1p56;  // 64 PiB

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// A file that a plan names: as it was given, or else from the plan's own folder, so that a
// plan can move together with its files.
std::string file_of_plan(const std::string& named, const std::string& plan_path) {
  if (exists(named) || named.find_first_of("/.") == std::string::npos) return named;
  const std::string beside = (std::filesystem::path(plan_path).parent_path() / named).string();
  return exists(beside) ? beside : named;
}

// Whether the argument means a file rather than a preset; "summit:8,memory=1.5GiB" does not.
bool is_cluster_file(const std::string& argument) {
  if (is_embedded_cluster(argument)) return exists(argument);
  return exists(argument) || (argument.find(':') == std::string::npos &&
                              argument.find_first_of("/.") != std::string::npos);
}

// All tensors of one sample, attention's scores among them.
double sample_bytes(const Graph& graph) {
  double bytes = 0;
  for (const Tensor& tensor : graph.tensors) bytes += static_cast<double>(tensor_bytes(tensor, 1));
  for (const Operator& op : graph.ops) {
    if (op.kind != OpKind::kAttention) continue;
    const Tensor& x = graph.tensor(op.inputs[0]);
    const auto positions = static_cast<double>(x.shape[0]);
    bytes += static_cast<double>(op.integer("heads")) * positions * positions *
             static_cast<double>(dtype_bytes(x.dtype));
  }
  return bytes;
}

void check_mini_batch(std::int64_t samples, const Graph& graph, const std::string& where) {
  if (samples < 1 || samples > kMostSamples) {
    throw InputError(where, fmt::format("expected 1 to {} samples, found {}",
                                        count_text(kMostSamples), samples));
  }
  const double bytes = sample_bytes(graph) * static_cast<double>(samples);
  if (bytes <= kMostBytes) return;
  throw InputError(where,
                   fmt::format("{} samples of {} have {} of tensors, more than the {} that "
                               "can be counted here; give fewer",
                               samples, graph.name, bytes_text(bytes), bytes_text(kMostBytes)));
}

// The profile that a plan was made with; "": the analytic model.
std::string profile_of(const Plan& plan, const std::string& plan_path) {
  if (plan.costs == AnalyticCosts().name()) return "";
  if (!plan.costs.starts_with(kProfilePrefix)) {
    throw InputError(plan_path + ": /costs",
                     fmt::format("expected \"analytic\" or \"profile FILE\", found \"{}\"; give "
                                 "--profile FILE",
                                 plan.costs));
  }
  const std::string path = file_of_plan(plan.costs.substr(kProfilePrefix.size()), plan_path);
  if (exists(path)) return path;
  throw InputError(plan_path,
                   fmt::format("the plan was made with the costs of {}, which is not there; give "
                               "--profile FILE",
                               path));
}

}  // namespace

void print_out(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
}

void print_note(const std::string& text) {
  if (verbosity() != Verbosity::kQuiet) fmt::print(stderr, "note: {}\n", text);
}

void print_import_notes(const Graph& graph) {
  for (const std::string& note : import_notes(graph)) print_note(note);
}

Cluster load_cluster(const std::string& argument, const std::string& model) {
  Cluster cluster;
  if (is_cluster_file(argument)) {
    cluster = parse_cluster(read_file(argument), argument);
  } else if (is_embedded_cluster(argument)) {
    cluster = embedded_preset(argument, embedded_cluster(model));
  } else {
    cluster = preset_cluster(argument);
  }
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
  command
      .add_option("--options", options,
                  "what planners may use: none (width 1), dp, recompute or both (dp,recompute)")
      ->capture_default_str();
  command.add_option("--optimizer", optimizer, "for memory: sgd, sgd-momentum, adam")
      ->capture_default_str();
  command.add_flag("--per-stage-micro-batch", per_stage_micro_batch,
                   "graphpipe: stages may have micro-batch sizes of their own");
  command
      .add_option("--kfkb", kfkb,
                  "graphpipe: forwards, and backwards, in a row that a stage may run, one or "
                  "several (1,2,4)")
      ->capture_default_str();
  command.add_flag("--all-devices", all_devices, "only plans that leave no device unused");
  command.add_option("--time-limit", time_limit_s, "seconds for a search; default: none");
}

void check_used(const ProblemFlags& flags, const std::vector<const Planner*>& planners) {
  std::vector<std::string> given;
  if (flags.per_stage_micro_batch) given.emplace_back("--per-stage-micro-batch");
  if (flags.kfkb != ProblemFlags().kfkb) given.emplace_back("--kfkb");
  if (given.empty()) return;
  std::vector<std::string> others;
  for (const Planner* planner : planners) {
    if (!planner->improve) others.push_back(planner->name);
  }
  if (others.empty()) return;
  if (others.size() == planners.size()) {
    throw InputError(given[0],
                     fmt::format("{} {} one micro-batch size and k = 1 for all stages; leave it "
                                 "out, or choose {}",
                                 fmt::join(others, ", "), others.size() == 1 ? "has" : "have",
                                 planner_named("graphpipe").name));
  }
  print_note(fmt::format("{}: of no use to {}", fmt::join(given, ", "), fmt::join(others, ", ")));
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
  options.data_parallel = flags.options.starts_with("dp");
  options.recompute = flags.options.ends_with("recompute");
  if (flags.options != options.text()) {
    throw InputError("--options",
                     fmt::format("'{}' is none of: none (every stage on one device), dp (stages on "
                                 "several devices), recompute (one device, and forwards run again "
                                 "where memory is short), dp,recompute",
                                 flags.options));
  }
  options.micro_batches = parse_integers(flags.micro_batch, "--micro-batch");
  for (const std::int64_t b : options.micro_batches) {
    if (b < 1) throw InputError("--micro-batch", fmt::format("{} is not at least 1", b));
  }
  options.all_devices = flags.all_devices;
  options.per_stage_micro_batch = flags.per_stage_micro_batch;
  options.kfkb.clear();
  for (const std::int64_t k : parse_integers(flags.kfkb, "--kfkb")) {
    if (k < 1 || k > kMostInARow) {
      throw InputError("--kfkb", fmt::format("expected 1 to {}, found {}", kMostInARow, k));
    }
    options.kfkb.push_back(static_cast<int>(k));
  }
  options.optimizer = parse_optimizer(flags.optimizer, "--optimizer");
  return options;
}

LoadedProblem::LoadedProblem(const ProblemFlags& flags)
    : graph(load_model(flags.model)), cluster(load_cluster(flags.cluster, flags.model)) {
  print_detail(fmt::format("read {}: {} operators", flags.model, graph.op_count()));
  print_import_notes(graph);
  check_mini_batch(flags.mini_batch, graph, "--mini-batch");
  if (!(flags.time_limit_s >= 0) || std::isinf(flags.time_limit_s)) {
    throw InputError("--time-limit", fmt::format("expected 0 seconds (no limit) or more, found {}",
                                                 flags.time_limit_s));
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

LoadedPlan::LoadedPlan(const std::string& path, const std::string& profile, bool checked)
    : profile_path(profile) {
  const std::string text = read_file(path);
  plan = parse_plan(text, path);
  const std::string model = file_of_plan(plan.model, path);
  graph = load_model(model);
  check_mini_batch(plan.mini_batch, graph, path + ": /mini_batch");
  cluster = load_cluster(file_of_plan(plan.cluster, path), model);
  if (plan.graph_hash != graph_hash(graph)) {
    other_graph = fmt::format("the plan was made for another graph than {}: {}; plan again",
                              plan.model, plan_difference(text, graph));
  }
  if (checked) {
    if (!other_graph.empty()) throw InputError(path + ": /graph_hash", "P7: " + other_graph);
    validate(plan, graph, cluster, path);
  }
  if (profile_path.empty()) profile_path = profile_of(plan, path);
  costs = load_costs(profile_path, graph);
  print_detail(
      fmt::format("read {}: {} stages, costs: {}", path, plan.stages.size(), costs->name()));
}

bool can_run(const LoadedPlan& loaded, bool in_any_memory) {
  const Verification verification =
      verify_plan(loaded.plan, loaded.graph, loaded.cluster, *loaded.costs);
  print_detail("verified the programs");
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

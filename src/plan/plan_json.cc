#include "plan/plan_json.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/json_reader.h"

namespace graphpipe {
namespace {

constexpr std::string_view kFormat = "graphpipe-plan";
constexpr std::int64_t kVersion = 1;

constexpr std::array<std::pair<Replication, std::string_view>, 2> kReplicationNames{
    {{Replication::kSplit, "split"}, {Replication::kRoundRobin, "round_robin"}}};
constexpr std::array<std::pair<EdgeKind, std::string_view>, 2> kEdgeKindNames{
    {{EdgeKind::kData, "data"}, {EdgeKind::kOrder, "order"}}};

template <typename Enum, std::size_t n>
std::string_view name_of(const std::array<std::pair<Enum, std::string_view>, n>& names,
                         Enum value) {
  const auto at = std::ranges::find(names, value, [](const auto& pair) { return pair.first; });
  GP_CHECK(at != names.end(), "enumerator {}", static_cast<int>(value));
  return at->second;
}

template <typename Enum, std::size_t n>
Enum read_name(const JsonReader& json,
               const std::array<std::pair<Enum, std::string_view>, n>& names) {
  const std::string found = json.string();
  std::vector<std::string_view> known;
  for (const auto& [value, name] : names) {
    if (name == found) return value;
    known.push_back(name);
  }
  json.fail(fmt::format("expected one of {}, found \"{}\"", fmt::join(known, ", "), found));
}

// The named forms that plan.h gives, as a table.
constexpr std::array<ScheduleKind, 3> kSchedules{ScheduleKind::k1F1B, ScheduleKind::kGpipe,
                                                 ScheduleKind::kZbH1};
constexpr std::array<WeightPolicy, 5> kPolicies{WeightPolicy::kSynchronous, WeightPolicy::kStash,
                                                WeightPolicy::kVerticalSync, WeightPolicy::k2bw,
                                                WeightPolicy::kNaive};
constexpr std::array<OptimizerKind, 3> kOptimizers{OptimizerKind::kSgd, OptimizerKind::kSgdMomentum,
                                                   OptimizerKind::kAdam};

template <typename Enum, std::size_t n>
std::array<std::pair<Enum, std::string_view>, n> named(const std::array<Enum, n>& values,
                                                       std::string_view (*name)(Enum)) {
  std::array<std::pair<Enum, std::string_view>, n> pairs;
  for (std::size_t i = 0; i < n; ++i) pairs[i] = {values[i], name(values[i])};
  return pairs;
}

std::int32_t read_small(const JsonReader& json, std::int64_t low) {
  const std::int64_t n = json.integer_at_least(low);
  if (n > std::numeric_limits<std::int32_t>::max()) {
    json.fail(
        fmt::format("expected at most {}, found {}", std::numeric_limits<std::int32_t>::max(), n));
  }
  return static_cast<std::int32_t>(n);
}

template <typename SomeId>
std::vector<SomeId> read_ids(const JsonReader& json) {
  std::vector<SomeId> ids;
  for (const JsonReader& item : json.items()) ids.emplace_back(read_small(item, 0));
  return ids;
}

// Ids with the names for people beside them, one for each.
template <typename SomeId>
std::vector<SomeId> read_named_ids(const JsonReader& json, const char* ids, const char* names) {
  std::vector<SomeId> result = read_ids<SomeId>(json[ids]);
  const std::size_t count = json[names].items().size();
  if (count != result.size()) {
    json[names].fail(
        fmt::format("expected a name for each of the {} {}, found {}", result.size(), ids, count));
  }
  return result;
}

Stage read_stage(const JsonReader& json) {
  json.only({"id", "ops", "op_ids", "devices", "replication", "recompute", "micro_batch",
             "in_flight_samples", "kfkb", "memory_bytes", "tps_s"});
  Stage stage;
  stage.ops = read_named_ids<OpId>(json, "op_ids", "ops");
  stage.devices = read_ids<DeviceId>(json["devices"]);
  stage.replication = read_name(json["replication"], kReplicationNames);
  stage.recompute = json["recompute"].boolean();
  stage.micro_batch = json["micro_batch"].integer();
  stage.in_flight_samples = json["in_flight_samples"].integer();
  stage.kfkb = read_small(json["kfkb"], 1);
  return stage;
}

StageEdge read_edge(const JsonReader& json) {
  json.only({"from", "to", "kind", "tensors", "tensor_ids", "gradient", "bytes_per_sample"});
  StageEdge edge;
  edge.from = StageId(read_small(json["from"], 0));
  edge.to = StageId(read_small(json["to"], 0));
  edge.kind = read_name(json["kind"], kEdgeKindNames);
  edge.tensors = read_named_ids<TensorId>(json, "tensor_ids", "tensors");
  edge.gradient = json["gradient"].boolean();
  return edge;
}

void read_estimate(const JsonReader& json, PlanEstimate& estimate) {
  estimate.iteration_s = json["iteration_s"].number_at_least(0);
  estimate.throughput_samples_per_s = json["throughput_samples_per_s"].number_at_least(0);
  estimate.bubble_fraction = json["bubble_fraction"].number();
  estimate.lower_bound_s = json["lower_bound_s"].number_at_least(0);
  estimate.search_s = json["search_s"].number_at_least(0);
  for (const JsonReader& stage : json["stages"].items()) {
    if (!stage["tps_s"].value().is_null()) {
      estimate.stage_tps_s.push_back(stage["tps_s"].number());
    }
    if (!stage["memory_bytes"].value().is_null()) {
      estimate.stage_memory_bytes.push_back(stage["memory_bytes"].integer());
    }
  }
  const std::size_t stages = json["stages"].items().size();
  for (const std::size_t count :
       {estimate.stage_tps_s.size(), estimate.stage_memory_bytes.size()}) {
    if (count != 0 && count != stages) {
      json["stages"].fail("tps_s and memory_bytes must be null on all stages or on none");
    }
  }
}

void check_format(const JsonReader& json) {
  json.expect_format(kFormat, kVersion, "a plan", "plan anew with this program");
  const std::string status = json["status"].string();
  if (status != "ok") {
    json["status"].fail(fmt::format("expected \"ok\", found \"{}\"; no plan was found", status));
  }
}

template <typename SomeId>
Json numbers(const std::vector<SomeId>& ids) {
  Json list = Json::array();
  for (const SomeId id : ids) list.push_back(id.value);
  return list;
}

Json written_stage(const Plan& plan, const Graph& graph, std::size_t s) {
  const Stage& stage = plan.stages[s];
  const PlanEstimate& estimate = plan.estimate;
  Json names = Json::array();
  for (const OpId op : stage.ops) names.push_back(graph.op(op).name);
  Json json = {{"id", s},
               {"ops", std::move(names)},
               {"op_ids", numbers(stage.ops)},
               {"devices", numbers(stage.devices)},
               {"replication", name_of(kReplicationNames, stage.replication)},
               {"recompute", stage.recompute},
               {"micro_batch", stage.micro_batch},
               {"in_flight_samples", stage.in_flight_samples},
               {"kfkb", stage.kfkb},
               {"memory_bytes", nullptr},
               {"tps_s", nullptr}};
  if (s < estimate.stage_memory_bytes.size()) json["memory_bytes"] = estimate.stage_memory_bytes[s];
  if (s < estimate.stage_tps_s.size()) json["tps_s"] = estimate.stage_tps_s[s];
  return json;
}

Json written_edge(const StageEdge& edge, const Graph& graph) {
  Json names = Json::array();
  std::int64_t bytes = 0;
  for (const TensorId tensor : edge.tensors) {
    names.push_back(graph.tensor(tensor).name);
    bytes += tensor_bytes(graph.tensor(tensor), 1);
  }
  return {{"from", edge.from.value},
          {"to", edge.to.value},
          {"kind", name_of(kEdgeKindNames, edge.kind)},
          {"tensors", std::move(names)},
          {"tensor_ids", numbers(edge.tensors)},
          {"gradient", edge.gradient},
          {"bytes_per_sample", bytes}};
}

// null where stages differ.
Json common_micro_batch(const Plan& plan) {
  if (plan.stages.empty()) return nullptr;
  const std::int64_t first = plan.stages.front().micro_batch;
  const bool same = std::ranges::all_of(
      plan.stages, [&](const Stage& stage) { return stage.micro_batch == first; });
  return same ? Json(first) : Json(nullptr);
}

Json gap_of(const PlanEstimate& estimate) {
  if (estimate.lower_bound_s <= 0) return nullptr;
  return estimate.iteration_s / estimate.lower_bound_s - 1;
}

}  // namespace

Plan parse_plan(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  const JsonReader json(document, file);
  check_format(json);
  json.only({"format",          "version",       "status",
             "model",           "graph_hash",    "planner",
             "cluster",         "options",       "costs",
             "devices",         "mini_batch",    "micro_batch",
             "schedule",        "optimizer",     "weights",
             "depth",           "search_s",      "stages",
             "edges",           "iteration_s",   "throughput_samples_per_s",
             "bubble_fraction", "lower_bound_s", "gap"});
  Plan plan;
  plan.model = json["model"].string();
  plan.graph_hash = json["graph_hash"].hash();
  plan.planner = json["planner"].string();
  plan.cluster = json["cluster"].string();
  plan.options = json["options"].string();
  plan.costs = json["costs"].string();
  plan.mini_batch = json["mini_batch"].integer_at_least(1);
  plan.schedule = read_name(json["schedule"], named(kSchedules, schedule_kind_name));
  plan.optimizer = read_name(json["optimizer"], named(kOptimizers, optimizer_name));
  if (json.has("weights")) {
    plan.weights = read_name(json["weights"], named(kPolicies, weight_policy_name));
  }
  for (const JsonReader& stage : json["stages"].items()) plan.stages.push_back(read_stage(stage));
  for (const JsonReader& edge : json["edges"].items()) plan.edges.push_back(read_edge(edge));
  read_estimate(json, plan.estimate);
  return plan;
}

std::string to_json(const Plan& plan, const Graph& graph) {
  Json stages = Json::array();
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    stages.push_back(written_stage(plan, graph, s));
  }
  Json edges = Json::array();
  for (const StageEdge& edge : plan.edges) edges.push_back(written_edge(edge, graph));
  const PlanEstimate& estimate = plan.estimate;
  Json document = {{"format", kFormat},
                   {"version", kVersion},
                   {"status", "ok"},
                   {"model", plan.model},
                   {"graph_hash", hash_text(plan.graph_hash)},
                   {"planner", plan.planner},
                   {"cluster", plan.cluster},
                   {"options", plan.options},
                   {"costs", plan.costs},
                   {"devices", devices_used(plan)},
                   {"mini_batch", plan.mini_batch},
                   {"micro_batch", common_micro_batch(plan)},
                   {"schedule", schedule_kind_name(plan.schedule)},
                   {"optimizer", optimizer_name(plan.optimizer)},
                   {"depth", pipeline_depth(plan)},
                   {"search_s", estimate.search_s},
                   {"stages", std::move(stages)},
                   {"edges", std::move(edges)},
                   {"iteration_s", estimate.iteration_s},
                   {"throughput_samples_per_s", estimate.throughput_samples_per_s},
                   {"bubble_fraction", estimate.bubble_fraction},
                   {"lower_bound_s", estimate.lower_bound_s},
                   {"gap", gap_of(estimate)}};
  if (is_asynchronous(plan.weights)) document["weights"] = weight_policy_name(plan.weights);
  return document.dump(2) + "\n";
}

}  // namespace graphpipe

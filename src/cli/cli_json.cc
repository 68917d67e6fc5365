#include "cli/cli_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/hash.h"
#include "base/json_reader.h"
#include "plan/plan_json.h"
#include "plan/weight_versions.h"

namespace graphpipe {
namespace {

std::string text_of(const Json& json) { return json.dump(2) + "\n"; }

Json problem_fields(const Problem& problem, const std::string& planner) {
  return {{"model", problem.model_argument},
          {"planner", planner},
          {"cluster", problem.cluster_argument},
          {"devices", problem.cluster->device_count()},
          {"mini_batch", problem.mini_batch}};
}

Json parameter_json(const ZooParameter& p) {
  Json json = {{"name", p.name}, {"default", p.value}, {"meaning", p.meaning}};
  if (p.choices.empty()) {
    json["low"] = p.low;
    json["high"] = p.high;
  } else {
    json["default"] = value_text(p, p.value);
    json["choices"] = p.choices;
  }
  return json;
}

}  // namespace

std::string json_library() {
  return fmt::format("nlohmann-json {}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                     NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH);
}

std::string models_json(const std::vector<ZooModel>& models) {
  Json list = Json::array();
  for (const ZooModel& model : models) {
    Json parameters = Json::array();
    for (const ZooParameter& p : model.parameters) {
      parameters.push_back(parameter_json(p));
    }
    list.push_back({{"name", model.name}, {"summary", model.summary}, {"parameters", parameters}});
  }
  return text_of({{"models", list}});
}

std::string show_json(const Graph& graph, const ModelSummary& summary) {
  Json inputs = Json::array();
  for (const TensorId id : graph.inputs) {
    const Tensor& t = graph.tensor(id);
    inputs.push_back({{"name", t.name}, {"dtype", dtype_name(t.dtype)}, {"shape", t.shape}});
  }
  return text_of({{"model", graph.name},
                  {"operators", summary.operators},
                  {"parameters", summary.parameters},
                  {"parameter_bytes", summary.parameter_bytes},
                  {"forward_flops_per_sample", summary.forward_flops_per_sample},
                  {"branches", summary.branches},
                  {"series_parallel", summary.series_parallel},
                  {"added_order_pairs", summary.added_order_pairs},
                  {"path_stretch", summary.path_stretch},
                  {"graph_hash", hash_text(graph_hash(graph))},
                  {"inputs", inputs}});
}

std::string no_plan_json(const Problem& problem, const std::string& planner,
                         const SearchResult& result) {
  Json json = problem_fields(problem, planner);
  json["status"] = result.status == PlanStatus::kGaveUp ? "gave_up" : "infeasible";
  json["reason"] = result.reason;
  json["search_s"] = result.search_s;
  return text_of(json);
}

std::string compare_json(const std::vector<ComparedPlan>& rows, const std::vector<double>& search_s,
                         const Problem& problem) {
  Json list = Json::array();
  double slowest_s = 0;
  for (const ComparedPlan& row : rows) {
    if (row.status == "ok") slowest_s = std::max(slowest_s, row.plan.estimate.iteration_s);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ComparedPlan& row = rows[i];
    if (row.status == "ok") {
      Json plan = Json::parse(to_json(row.plan, *problem.graph));
      plan["speed_up"] = slowest_s / row.plan.estimate.iteration_s;
      list.push_back(std::move(plan));
      continue;
    }
    Json json = problem_fields(problem, row.planner);
    json["status"] = row.status;
    json["reason"] = row.reason;
    json["search_s"] = search_s[i];
    list.push_back(json);
  }
  return text_of({{"plans", list}});
}

std::string simulate_json(const Trace& trace, const std::optional<SteadyState>& steady,
                          const Schedule& schedule, const Plan& plan) {
  Json devices = Json::array();
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    devices.push_back({{"rank", r},
                       {"device", schedule.ranks[r].device.value},
                       {"busy_s", trace.ranks[r].busy_s},
                       {"peak_memory_bytes", trace.ranks[r].peak_memory_bytes}});
  }
  if (!steady) {
    return text_of({{"iteration_s", trace.iteration_s},
                    {"throughput_samples_per_s", trace.throughput_samples_per_s()},
                    {"bubble_fraction", trace.bubble_fraction()},
                    {"devices", devices}});
  }
  Json stages = Json::array();
  const VersionRule rule(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    stages.push_back({{"id", s},
                      {"steps_late", rule.steps_late(StageId(s))},
                      {"versions", rule.most_held(StageId(s))}});
  }
  const double rate = static_cast<double>(plan.mini_batch) / steady->mini_batch_s;
  return text_of({{"iteration_s", steady->mini_batch_s},
                  {"throughput_samples_per_s", rate},
                  {"bubble_fraction", steady->bubble_fraction},
                  {"stream_mini_batches", trace.samples / plan.mini_batch},
                  {"stream_s", trace.iteration_s},
                  {"stages", stages},
                  {"devices", devices}});
}

std::string verify_json(const Verification& verification) {
  Json faults = Json::array();
  for (const Fault& fault : verification.faults) {
    faults.push_back({{"rule", fault.rule}, {"where", fault.where}, {"message", fault.message}});
  }
  Json ranks = Json::array();
  for (const RankMemory& memory : verification.memory) {
    ranks.push_back({{"static_bytes", memory.static_bytes},
                     {"peak_bytes", memory.peak_bytes},
                     {"peak_at", memory.peak_at}});
  }
  return text_of({{"ok", verification.ok()}, {"faults", faults}, {"ranks", ranks}});
}

std::string doctor_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& f : findings) {
    list.push_back({{"topic", f.topic},
                    {"name", f.name},
                    {"value", f.value},
                    {"advice", f.advice.empty() ? Json() : Json(f.advice)}});
  }
  return text_of({{"findings", list}});
}

std::string plan_difference(const std::string& plan_json, const Graph& graph) {
  const Json plan = Json::parse(plan_json);
  std::map<std::int64_t, std::string> ops;  // by number, as the plan has them
  for (const Json& stage : plan.at("stages")) {
    for (std::size_t i = 0; i < stage.at("op_ids").size(); ++i) {
      const Json& name = stage.at("ops").at(i);
      ops[stage.at("op_ids")[i].get<std::int64_t>()] =
          name.is_string() ? name.get<std::string>() : name.dump();
    }
  }
  const auto count = static_cast<std::int64_t>(graph.op_count());
  for (const auto& [id, name] : ops) {
    if (id >= count) return fmt::format("it has no operator {} (\"{}\" in the plan)", id, name);
    const std::string& found = graph.op(OpId(static_cast<std::size_t>(id))).name;
    if (found != name) {
      return fmt::format("operator {} is \"{}\" in the plan and \"{}\" in the graph", id, name,
                         found);
    }
  }
  for (std::int64_t id = 0; id < count; ++id) {
    if (ops.contains(id)) continue;
    return fmt::format("the plan has no operator {} (\"{}\" in the graph)", id,
                       graph.op(OpId(static_cast<std::size_t>(id))).name);
  }
  return fmt::format(
      "operators have the same names, but attributes, shapes, parameters, wiring or losses differ "
      "(hash {} in the plan, {} of the graph)",
      plan.at("graph_hash").get<std::string>(), hash_text(graph_hash(graph)));
}

}  // namespace graphpipe

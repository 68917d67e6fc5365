#include "job/job.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cstdint>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "cluster/cluster_json.h"
#include "graph/graph_json.h"
#include "graph/weights.h"
#include "plan/plan_json.h"

namespace graphpipe {
namespace {

constexpr const char* kGivenWeights = "/given.safetensors";

}  // namespace

std::string_view transport_name(TransportKind kind) {
  return kind == TransportKind::kAuto ? "auto" : "gloo";
}

std::optional<TransportKind> parse_transport(std::string_view name) {
  for (const auto kind : {TransportKind::kAuto, TransportKind::kGloo}) {
    if (transport_name(kind) == name) return kind;
  }
  return std::nullopt;
}

std::string_view checkpoint_mode_name(CheckpointMode mode) {
  return mode == CheckpointMode::kCoordinated ? "coordinated" : "per-stage";
}

std::optional<CheckpointMode> parse_checkpoint_mode(std::string_view name) {
  for (const auto mode : {CheckpointMode::kCoordinated, CheckpointMode::kPerStage}) {
    if (checkpoint_mode_name(mode) == name) return mode;
  }
  return std::nullopt;
}

std::string_view way_name(Rendezvous::Way way) {
  switch (way) {
    case Rendezvous::Way::kFolder:
      return "folder";
    case Rendezvous::Way::kFixed:
      return "fixed";
    case Rendezvous::Way::kOutput:
      return "output";
    case Rendezvous::Way::kAgent:
      return "agent";
  }
  GP_CHECK(false, "a way that is none");
}

std::optional<Rendezvous::Way> parse_way(std::string_view name) {
  using Way = Rendezvous::Way;
  for (const auto way : {Way::kFolder, Way::kFixed, Way::kOutput, Way::kAgent}) {
    if (way_name(way) == name) return way;
  }
  return std::nullopt;
}

Rendezvous local_rendezvous() {
  std::array<std::uint8_t, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw RunError("the system gives no random bytes");
  }
  Rendezvous rendezvous;
  for (const std::uint8_t byte : bytes) rendezvous.token += fmt::format("{:02x}", byte);
  return rendezvous;
}

std::string_view on_nan_name(OnNan what) { return what == OnNan::kStop ? "stop" : "skip"; }

std::optional<OnNan> parse_on_nan(std::string_view name) {
  for (const auto what : {OnNan::kStop, OnNan::kSkip}) {
    if (on_nan_name(what) == name) return what;
  }
  return std::nullopt;
}

double learning_rate_at(const TrainOptions& options, std::int64_t step) {
  return scheduled_rate(options.learning_rate, options.rate_schedule, step);
}

void write_job_graph(const std::string& folder, const Graph& graph) {
  write_file(folder + "/graph.json", to_json(graph));
  const Weights given = given_weights(graph);
  if (!given.empty()) write_file(folder + kGivenWeights, to_safetensors(given));
}

Graph read_job_graph(const std::string& folder) {
  const std::string path = folder + "/graph.json";
  Graph graph = parse_graph(read_file(path), path);
  const std::string weights = folder + kGivenWeights;
  if (std::filesystem::exists(weights)) {
    attach_weights(graph, parse_safetensors(read_file(weights), weights), weights);
  }
  return graph;
}

void write_job_inputs(const std::string& folder, const JobInputs& inputs) {
  write_job_graph(folder, inputs.graph);
  write_file(folder + "/plan.json", to_json(inputs.plan, inputs.graph));
  write_file(folder + "/cluster.json", to_json(inputs.cluster));
}

JobInputs read_job_inputs(const std::string& folder) {
  const std::string plan_path = folder + "/plan.json";
  const std::string cluster_path = folder + "/cluster.json";
  JobInputs inputs{.plan = parse_plan(read_file(plan_path), plan_path),
                   .graph = read_job_graph(folder),
                   .cluster = parse_cluster(read_file(cluster_path), cluster_path)};
  validate(inputs.plan, inputs.graph, inputs.cluster, plan_path);
  return inputs;
}

bool ranks_are_threads(const Job& job) {
  return job.kind == "emulate" && job.train.transport == TransportKind::kAuto;
}

int worker_count(const Job& job, const Plan& plan) {
  if (job.kind == "profile") return job.profile_load;
  return ranks_are_threads(job) ? 1 : devices_used(plan);
}

std::string profile_result_path(const std::string& folder) { return folder + "/profile.json"; }

std::string saved_weights_path(const std::string& folder, int rank) {
  return folder + "/weights." + std::to_string(rank) + ".safetensors";
}

}  // namespace graphpipe

#include "job/job.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "cluster/cluster_json.h"
#include "graph/graph_json.h"
#include "plan/plan_json.h"

namespace graphpipe {

void write_job_graph(const std::string& folder, const Graph& graph) {
  write_file(folder + "/graph.json", to_json(graph));
}

Graph read_job_graph(const std::string& folder) {
  const std::string path = folder + "/graph.json";
  return parse_graph(read_file(path), path);
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

int worker_count(const Job& job, const Plan& plan) {
  return job.kind == "profile" ? job.profile_load : devices_used(plan);
}

std::string profile_result_path(const std::string& folder) {
  return folder + "/measured.profile.json";
}

JobFolder::JobFolder() {
  const char* base = std::getenv("TMPDIR");
  path_ = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/graphpipe-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) {
    throw InputError(path_, "cannot make a folder for the run; set TMPDIR to one that is writable");
  }
}

JobFolder::~JobFolder() {
  std::error_code ignored;  // nothing can be done about a folder that does not go
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace graphpipe

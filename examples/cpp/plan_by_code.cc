// Builds a two-tower model by code, plans it for a node of four V100s, and prints the plan and its
// simulated timeline. Needs no libtorch.

#include <graphpipe/graphpipe.h>

#include <cstdlib>
#include <iostream>

using namespace graphpipe;

namespace {

// `layers` layers of `width`, each with a ReLU.
TensorId tower(GraphBuilder& g, const std::string& name, TensorId x, int layers,
               std::int64_t width) {
  for (int i = 0; i < layers; ++i) {
    const std::string layer = name + "." + std::to_string(i);
    x = g.relu(layer + ".relu", g.linear(layer, x, width));
  }
  return x;
}

Graph two_tower() {
  GraphBuilder g("two-tower");
  const TensorId user = g.input("user", DType::kInt64, {});  // shapes are of one sample
  const TensorId item = g.input("item", {512});
  const TensorId rating = g.input("rating", {1});
  const TensorId u = tower(g, "user", g.embedding("user.table", user, 100'000, 512), 4, 4096);
  const TensorId i = tower(g, "item", item, 4, 4096);
  const TensorId y = g.linear("head", g.concat("join", {u, i}, -1), 1);
  g.loss(g.mse_loss("loss", y, rating));
  return std::move(g).build();
}

}  // namespace

int main() {
  try {
    const Graph graph = two_tower();
    const Cluster cluster = preset_cluster("summit:4");
    const AnalyticCosts costs;
    PlanRequest request;
    request.mini_batch = 1024;
    request.options.data_parallel = false;
    const PlanAnswer answer = make_plan(graph, cluster, costs, request);
    if (answer.status != PlanStatus::kOk) {
      std::cerr << "no plan: " << answer.reason << "\n";
      return EXIT_FAILURE;
    }
    std::cout << "graphpipe " << GRAPHPIPE_VERSION << "\n"
              << plan_text(answer.plan, graph, cluster, costs) << "\n"
              << timeline_text(answer.plan, graph, cluster, costs) << "\n"
              << answer.plan.stages.size() << " stages, depth " << pipeline_depth(answer.plan)
              << "\n";
    return EXIT_SUCCESS;
  } catch (const InputError& error) {
    std::cerr << "error: " << error.what() << "\n";
    return EXIT_FAILURE;
  }
}

// Plans made without a planner: any acyclic partition of a graph into convex stages, by
// seed. Every such partition comes from cutting some order in which the operators can run.

#pragma once

#include <cstdint>

#include "cluster/cluster.h"
#include "plan/plan.h"

namespace graphpipe {

struct PartitionOptions {
  int stages = 1;  // at most the graph's operators
  std::uint64_t seed = 1;
  std::int64_t mini_batch = 1;
  std::int64_t micro_batch = 1;
  ScheduleKind schedule = ScheduleKind::k1F1B;
  bool chain = false;  // order edges between stages that no data joins
};

// Stage s on device s; in flight by least_in_flight(), for gpipe the mini-batch.
Plan cut_graph(const Graph& graph, const PartitionOptions& options);

// Sets micro-batch sizes and the in-flight counts that go with them.
void set_micro_batches(Plan& plan, const std::vector<std::int64_t>& sizes);

// `devices` ranks of one node.
Cluster test_cluster(int devices);

}  // namespace graphpipe

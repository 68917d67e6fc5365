// What the transfers of an iteration are and what they hold meanwhile, by the rules of
// docs/simulator.md. Only of single transfers: when each takes place is found out by running.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cluster/cluster.h"
#include "cost/cost_model.h"
#include "plan/plan.h"
#include "schedule/schedule.h"
#include "schedule/transfer_seconds.h"

namespace graphpipe {

// Transfers that follow one another: messages over an edge in one direction between two
// ranks, the sums of a bucket, or the tasks of a rank that shares its cores.
struct Lane {
  std::vector<int> ranks = {};      // that take part: a transfer is ready when all have come to it
  std::vector<int> resources = {};  // that it holds from its start, all at once
  double latency_s = 0;             // from when it lets go of them to its arrival
  std::int64_t transfers = 0;       // in an iteration
};

// All times are stretched.
class TransferModel {
 public:
  // What the references name must outlive the model.
  TransferModel(const Schedule& lowered, const Plan& plan, const Cluster& cluster,
                const CostModel& costs, double stretch);

  const std::vector<Lane>& lanes() const { return lanes_; }
  // [resource]: how many transfers can hold it at a time.
  const std::vector<int>& servers() const { return servers_; }
  int ranks() const { return static_cast<int>(lowered_.ranks.size()); }

  // Of a post_receive, start_send or the wait for either, on the rank.
  int lane_of_message(const Action& action, RankId rank) const;
  int lane_of_bucket(int bucket) const { return first_bucket_lane_ + bucket; }
  int lane_of_tasks(RankId rank) const { return task_lanes_[rank.index()]; }  // -1: own cores

  // How long a transfer holds its resources.
  double message_s(const Action& action, RankId rank) const;
  double reduction_s(int bucket) const;

 private:
  int add_resource(int servers);
  void add_channels();
  void add_buckets();
  void add_task_lanes();

  const Schedule& lowered_;
  const Plan& plan_;
  const Cluster& cluster_;
  TransferSeconds seconds_;  // before they are stretched
  double stretch_;
  std::vector<Lane> lanes_;
  std::vector<int> servers_;
  std::map<MessageChannel, int> channel_lanes_;
  int first_bucket_lane_ = 0;
  std::vector<int> task_lanes_;  // [rank]
};

}  // namespace graphpipe

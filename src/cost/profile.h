// A measured profile: for each distinct operator signature, seconds and bytes at
// several sample counts, on one device, under a stated load.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cost/cost_model.h"

namespace graphpipe {

struct ProfilePoint {
  std::int64_t samples = 0;
  double forward_s = 0;  // wall time under the load, median of several
  double backward_s = 0;
  std::int64_t saved_bytes = 0;      // kept for the backward beyond inputs and output
  std::int64_t workspace_bytes = 0;  // peak beyond inputs, output and what is saved
};

struct ProfileEntry {
  std::vector<ProfilePoint> points;  // samples ascending, distinct
  std::string failure;               // non-empty: not measured, and why
  // What stages took in a run over what these points say: times are multiplied by it
  // (plan/calibration.h).
  double calibration = 1;
};

// Of an optimiser's step: so much for each parameter, and for its bytes; 0: not measured.
struct StepLine {
  double param_s = 0;
  double bytes_per_s = 0;
};

struct Profile {
  std::string model;  // the MODEL argument
  std::uint64_t graph_hash = 0;
  std::string device;             // "cpu: AMD EPYC ..."
  std::string library;            // "libtorch 1.13.1, OpenBLAS ..."
  int load = 1;                   // how many ranks were busy while measuring
  int cores = 1;                  // of the machine
  double action_overhead_s = 0;   // of the runtime, per task
  double transfer_latency_s = 0;  // between two ranks of this machine; 0: not measured
  double transfer_bytes_per_s = 0;
  // How far measured messages are from latency + bytes / bandwidth: the root of the mean square
  // of (measured - line) / measured.
  double transfer_residual = 0;
  // Of a sum over two ranks, as CostModel::reduce_s() has it: what the ranks do to add up is in
  // it. 0: not measured.
  double reduce_latency_s = 0;
  double reduce_bytes_per_s = 0;
  std::array<StepLine, 3> steps;                // [moments of the optimiser]
  std::map<std::string, ProfileEntry> entries;  // by op_signature()
};

// Invariants, checked by validate():
//   F1  every entry has points with ascending sample counts, or a failure
//   F2  times are finite, forward ones and calibrations positive (an operator without a
//       backward has 0 for it), bytes and the other figures not negative
void validate(const Profile& profile, const std::string& where);

// Between two measured sample counts the cost is interpolated; beyond the last it grows
// with the last segment's slope (a single point: in proportion), below the first it falls
// with the first segment's, and is marked extrapolated. An operator that has no entry takes
// the analytic cost, scaled by the median ratio of measured to analytic over the graph's
// others, and is marked so too.
//
// Where more ranks were busy than there are cores, measured times hold that contention.
// Costs are those of a device that has its cores to itself, so it is taken out again: the
// simulator puts in what the plan's own ranks make of it. Transfers between ranks and sums over
// them take the measured latencies and bandwidths, where there are any, whatever the link.
class ProfiledCosts : public CostModel {
 public:
  ProfiledCosts(Profile profile, std::string file);
  ~ProfiledCosts() override;
  ProfiledCosts(const ProfiledCosts&) = delete;
  ProfiledCosts& operator=(const ProfiledCosts&) = delete;

  OpCost op_cost(const Graph& graph, OpId op, std::int64_t samples, int tensor_degree,
                 const DeviceType& device, Phase phase) const override;
  bool keeps_input(const Operator& op, std::size_t i, const DeviceType& device) const override;
  bool keeps_output(const Operator& op, const DeviceType& device) const override;
  double transfer_s(std::int64_t bytes, const Link& link) const override;
  double reduce_s(std::int64_t bytes, int ranks, const Link& link) const override;
  double step_s(std::int64_t params, std::int64_t bytes, int moments) const override;
  double task_overhead_s() const override { return profile_.action_overhead_s; }
  std::string name() const override;
  const Profile& profile() const { return profile_; }

 private:
  struct Lookup;
  const ProfileEntry* entry_of(const Graph& graph, OpId op) const;
  OpCost fallback_cost(const Graph& graph, OpId op, std::int64_t samples, const DeviceType& device,
                       Phase phase) const;
  double median_ratio(const Graph& graph, const DeviceType& device) const;

  Profile profile_;
  std::string file_;
  std::unique_ptr<Lookup> lookup_;
};

}  // namespace graphpipe

// train --hostfile: the ranks of a run on the hosts of a file.

#pragma once

#include <string>
#include <vector>

#include "cli/train_flags.h"
#include "job/hosts/remote_ranks.h"
#include "job/launcher.h"

namespace graphpipe {

// Some of the hosts may be gone: ranks then run on the others.
class HostRanks {
 public:
  // Both must outlive it. Throws InputError where the file is no hostfile.
  HostRanks(const TrainFlags& flags, const LoadedPlan& loaded);

  // The plan of `inputs` on the hosts that are up, a process a rank.
  LaunchResult run(const JobInputs& inputs, const std::string& resume, const LineSink& on_line);

  // The host of the rank that was struck takes none until it answers. Returns how many ranks fewer
  // than the plan's the others have slots for.
  std::size_t count_lost(const LaunchResult& result);

  // Whether all hosts answer; they are used again then.
  bool all_back();

 private:
  std::vector<HostSlots> hosts_up() const;

  // The ranks read the plan in the folder of the checkpoints, which all hosts share.
  std::vector<std::string> command_for(const JobInputs& inputs, const std::string& resume) const;

  const TrainFlags& flags_;
  RemoteJob all_;
  const Plan& plan_;
  std::vector<bool> is_down_;        // [host]
  std::vector<std::string> placed_;  // [rank]: its host, as it runs now
};

}  // namespace graphpipe

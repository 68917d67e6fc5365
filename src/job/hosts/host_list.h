// Names of hosts as people and schedulers write them.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graphpipe {

// Slurm's short form: "node[01-03,7],gpu5" -> node01 node02 node03 node7 gpu5. Throws
// InputError(where, ...).
std::vector<std::string> expand_node_list(std::string_view text, const std::string& where);

struct HostSlots {
  std::string host;
  int slots = 1;  // ranks that it takes
  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

// A line a host: "NAME", "NAME slots=4" (as Open MPI has it) or "NAME:4" (as MPICH has it); a
// comment begins with '#'. A host that stands there twice has the slots of both lines. Throws
// InputError("FILE:LINE", ...).
std::vector<HostSlots> parse_hostfile(std::string_view text, const std::string& file);

// [rank]: its host, an index into `hosts`, which are filled in their order. Throws
// InputError(where, ...) where there are fewer slots than ranks.
std::vector<int> place_ranks(const std::vector<HostSlots>& hosts, int ranks,
                             const std::string& where);

}  // namespace graphpipe

// What this machine offers to a run, with advice: the facts of `graphpipe doctor`.

#pragma once

#include <string>
#include <vector>

namespace graphpipe {

struct Finding {
  std::string topic;   // "machine", "libraries", "limits", ...
  std::string name;    // "cores"
  std::string value;   // "2"
  std::string advice;  // what to do; "": nothing
};

// Of the machine, this program and its surroundings. Never throws: what cannot be found out says
// so.
std::vector<Finding> machine_findings();

// Of graphpipe-worker, which knows libtorch: it is run for a second and asked.
std::vector<Finding> worker_findings(const std::string& worker);

}  // namespace graphpipe

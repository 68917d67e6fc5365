// Which devices run which stage.

#pragma once

#include <vector>

#include "cluster/cluster.h"

namespace graphpipe {

// [stage]: its devices, ascending. Stages that follow one another in `widths` sit beside
// one another, and a stage's replicas in one node where they fit: each stage takes the
// first room in the node of the last one, else in the first later node that has room for
// it, else in the first one at all, else what is left anywhere. Requires: the widths add up
// to no more than the devices.
std::vector<std::vector<DeviceId>> place_stages(const Cluster& cluster,
                                                const std::vector<int>& widths);

}  // namespace graphpipe

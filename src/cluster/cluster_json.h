// The file form of a Cluster: NAME.cluster.json, described in docs/formats.md.

#pragma once

#include <string>
#include <string_view>

#include "cluster/cluster.h"

namespace graphpipe {

Cluster parse_cluster(std::string_view json, const std::string& file);
std::string to_json(const Cluster& cluster);

}  // namespace graphpipe

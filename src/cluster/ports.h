// Where messages between devices queue: what one of them holds while its bytes pass.

#pragma once

#include <vector>

#include "cluster/cluster.h"

namespace graphpipe {

// One way out of, or into, a device or a group of devices that shares it.
struct Port {
  int level = -1;  // the shared level; -1: a device's own
  int group = 0;   // of the groups below that level; of level -1: the device
  bool out = true;
  friend auto operator<=>(const Port&, const Port&) = default;
};

// Out of `from`, into `to`; then of each shared level at which they do not meet below,
// inside out, out of the group of `from` and into that of `to`.
std::vector<Port> ports_between(const Cluster& cluster, DeviceId from, DeviceId to);

}  // namespace graphpipe

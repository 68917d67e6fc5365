#include "planners/graphpipe/placement.h"

#include <algorithm>

#include "base/error.h"

namespace graphpipe {
namespace {

class Nodes {
 public:
  explicit Nodes(const Cluster& cluster) {
    for (int d = 0; d < cluster.device_count(); ++d) {
      const auto node = static_cast<std::size_t>(group_of(cluster, DeviceId(d), 0));
      if (node >= free_.size()) free_.resize(node + 1);
      free_[node].emplace_back(d);
    }
  }

  std::vector<DeviceId> take(int width) {
    const std::size_t count = free_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t node = (last_ + i) % count;
      if (static_cast<int>(free_[node].size()) >= width) return take_from(node, width);
    }
    std::vector<DeviceId> devices;
    for (std::size_t i = 0; i < count && width > 0; ++i) {
      const int here = std::min(width, static_cast<int>(free_[i].size()));
      const std::vector<DeviceId> part = take_from(i, here);
      devices.insert(devices.end(), part.begin(), part.end());
      width -= here;
    }
    GP_CHECK(width == 0, "{} devices too few", width);
    return devices;
  }

 private:
  std::vector<DeviceId> take_from(std::size_t node, int width) {
    last_ = node;
    const auto end = free_[node].begin() + width;
    std::vector<DeviceId> devices(free_[node].begin(), end);
    free_[node].erase(free_[node].begin(), end);
    return devices;
  }

  std::vector<std::vector<DeviceId>> free_;  // [node], ascending
  std::size_t last_ = 0;
};

}  // namespace

std::vector<std::vector<DeviceId>> place_stages(const Cluster& cluster,
                                                const std::vector<int>& widths) {
  Nodes nodes(cluster);
  std::vector<std::vector<DeviceId>> devices;
  for (const int width : widths) devices.push_back(nodes.take(width));
  return devices;
}

}  // namespace graphpipe

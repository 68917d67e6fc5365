#include "schedule/owner_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/divide_up.h"

namespace graphpipe {
namespace {

SampleRange intersect(SampleRange a, SampleRange b) {
  return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
}

}  // namespace

std::int64_t micro_batch_count(const Stage& stage, std::int64_t samples) {
  return divide_up(samples, stage.micro_batch);
}

SampleRange micro_batch_samples(const Stage& stage, std::int64_t micro_batch,
                                std::int64_t samples) {
  const std::int64_t lo = micro_batch * stage.micro_batch;
  return {lo, std::min(lo + stage.micro_batch, samples)};
}

SampleRange replica_samples(const Stage& stage, int replica, std::int64_t micro_batch,
                            std::int64_t samples) {
  const SampleRange all = micro_batch_samples(stage, micro_batch, samples);
  const auto width = static_cast<std::int64_t>(stage.devices.size());
  if (width == 1) return all;
  if (stage.replication == Replication::kRoundRobin) {
    return micro_batch % width == replica ? all : SampleRange{all.lo, all.lo};
  }
  const std::int64_t share = divide_up(all.size(), width);
  return {std::min(all.lo + replica * share, all.hi),
          std::min(all.lo + (replica + 1) * share, all.hi)};
}

std::vector<SampleOwner> owners(const Stage& stage, std::int64_t micro_batch,
                                std::int64_t samples) {
  const auto width = static_cast<int>(stage.devices.size());
  if (stage.replication == Replication::kRoundRobin) {
    return {
        {static_cast<int>(micro_batch % width), micro_batch_samples(stage, micro_batch, samples)}};
  }
  std::vector<SampleOwner> result;
  for (int replica = 0; replica < width; ++replica) {
    result.push_back({replica, replica_samples(stage, replica, micro_batch, samples)});
  }
  return result;
}

std::vector<OwnedPart> owned_parts(const Stage& stage, SampleRange range, std::int64_t samples) {
  std::vector<OwnedPart> parts;
  range = intersect(range, {0, samples});
  if (range.empty()) return parts;
  const auto width = static_cast<std::int64_t>(stage.devices.size());
  const bool in_turn = stage.replication == Replication::kRoundRobin;
  const std::int64_t last = (range.hi - 1) / stage.micro_batch;
  for (std::int64_t i = range.lo / stage.micro_batch; i <= last; ++i) {
    const SampleRange all = micro_batch_samples(stage, i, samples);
    const SampleRange part = intersect(all, range);
    if (width == 1 || in_turn) {
      parts.push_back({i, static_cast<int>(i % width), part});
      continue;
    }
    const std::int64_t share = divide_up(all.size(), width);
    for (std::int64_t lo = part.lo; lo < part.hi;) {
      const std::int64_t replica = (lo - all.lo) / share;
      const std::int64_t hi = std::min(all.lo + (replica + 1) * share, part.hi);
      parts.push_back({i, static_cast<int>(replica), {lo, hi}});
      lo = hi;
    }
  }
  return parts;
}

std::string samples_text(SampleRange samples) {
  return fmt::format("[{},{})", samples.lo, samples.hi);
}

}  // namespace graphpipe

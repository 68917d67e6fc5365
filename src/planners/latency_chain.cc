#include "planners/latency_chain.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/numbers.h"

namespace graphpipe {
namespace {

constexpr double kBackwardShare = 2.0 / 3;
class Search {
 public:
  explicit Search(const LatencyChain& chain)
      : chain_(chain), n_(static_cast<std::size_t>(chain.blocks)), widths_(chain.widths.size()) {
    stages_.resize((n_ + 1) * (n_ + 1) * widths_);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = i + 1; j <= n_; ++j) {
        for (std::size_t w = 0; w < widths_; ++w) {
          stages_[index(i, j, w)] =
              chain.stage(static_cast<int>(i), static_cast<int>(j), chain.widths[w]);
        }
      }
    }
  }

  std::vector<LatencyPartition> solve(int bounds) {
    std::vector<LatencyPartition> found;
    std::set<std::vector<std::pair<int, int>>> known;
    const std::vector<double> to_try = bounds_to_try(bounds);
    for (std::size_t i = 0; i < to_try.size(); ++i) {
      tell(part_of(chain_.progress, i, to_try.size()), 0);
      if (chain_.should_stop && chain_.should_stop()) break;
      LatencyPartition partition = best_within(to_try[i]);
      if (partition.stages.empty()) continue;
      std::vector<std::pair<int, int>> cuts;
      for (const LatencyCut& cut : partition.stages) cuts.emplace_back(cut.end, cut.width);
      if (known.insert(cuts).second) found.push_back(std::move(partition));
    }
    std::ranges::stable_sort(found, {}, &LatencyPartition::latency_s);
    return found;
  }

 private:
  using Stage = LatencyChain::Stage;
  std::size_t index(std::size_t i, std::size_t j, std::size_t w) const {
    return (i * (n_ + 1) + j) * widths_ + w;
  }
  static double time_s(const Stage& stage) {
    return stage.forward_s + stage.backward_s + stage.transfer_s;
  }

  std::vector<double> bounds_to_try(int count) const {
    std::vector<double> times;
    for (const Stage& stage : stages_) {
      if (stage.fits && time_s(stage) > 0) times.push_back(time_s(stage));
    }
    std::ranges::sort(times);
    const auto repeats = std::ranges::unique(times);
    times.erase(repeats.begin(), repeats.end());
    if (times.size() <= static_cast<std::size_t>(count)) return times;
    std::vector<double> some;
    for (int i = 1; i <= count; ++i) {
      some.push_back(
          times[times.size() * static_cast<std::size_t>(i) / static_cast<std::size_t>(count) - 1]);
    }
    return some;
  }

  // value = seconds of the stages so far + what follows the last one's last backward.
  struct Cell {
    double sum_s = kInfinity;
    double rest_s = 0;
    std::size_t from = 0;
    std::size_t width = 0;
    double value() const { return sum_s + rest_s; }
  };

  LatencyPartition best_within(double bound) const {
    const auto devices = static_cast<std::size_t>(chain_.devices);
    std::vector<Cell> cells((n_ + 1) * (devices + 1));
    const auto at = [&](std::size_t j, std::size_t m) -> Cell& {
      return cells[j * (devices + 1) + m];
    };
    at(0, 0).sum_s = 0;
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = i + 1; j <= n_; ++j) {
        for (std::size_t w = 0; w < widths_; ++w) {
          const Stage& stage = stages_[index(i, j, w)];
          if (!stage.fits || time_s(stage) > bound) continue;
          const auto width = static_cast<std::size_t>(chain_.widths[w]);
          for (std::size_t m = 0; m + width <= devices; ++m) {
            const Cell& past = at(i, m);
            if (past.sum_s == kInfinity) continue;
            // A stage reduces while the last backward goes on through the stages in front of it,
            // which are about two thirds of their sums.
            const double exposed_s = stage.reduce_s - past.sum_s * kBackwardShare;
            const Cell next{past.sum_s + time_s(stage), std::max(exposed_s, past.rest_s), i, w};
            if (next.value() < at(j, m + width).value()) at(j, m + width) = next;
          }
        }
      }
    }
    std::size_t used = devices;
    if (!chain_.all_devices) {
      for (std::size_t m = 0; m < devices; ++m) {
        if (at(n_, m).value() < at(n_, used).value()) used = m;
      }
    }
    LatencyPartition result;
    if (at(n_, used).sum_s == kInfinity) return result;
    double largest_s = 0;
    std::size_t end = n_;
    for (std::size_t m = used; end > 0;) {
      const Cell& cell = at(end, m);
      largest_s = std::max(largest_s, time_s(stages_[index(cell.from, end, cell.width)]));
      result.stages.push_back({static_cast<int>(end), chain_.widths[cell.width]});
      m -= static_cast<std::size_t>(chain_.widths[cell.width]);
      end = cell.from;
    }
    std::ranges::reverse(result.stages);
    result.latency_s =
        at(n_, used).value() + static_cast<double>(chain_.micro_batches - 1) * largest_s;
    return result;
  }

  const LatencyChain& chain_;
  std::size_t n_;
  std::size_t widths_;
  std::vector<Stage> stages_;
};

}  // namespace

std::vector<LatencyPartition> shortest_chains(const LatencyChain& chain, int bounds) {
  if (chain.blocks < 1 || chain.widths.empty()) return {};
  return Search(chain).solve(bounds);
}

}  // namespace graphpipe

// The memory rule and the order of divisions in `code` are those of the public optimiser.

#include "planners/pipedream/partition.h"

#include <algorithm>
#include <cmath>

#include "base/numbers.h"

namespace graphpipe {
namespace {

// What a cell of A(i, j, m) came from: split behind state k, m' replicas in the last stage.
struct Split {
  int k = -1;  // -1: one stage
  int replicas = 0;
};

class LevelTable {
 public:
  LevelTable(const PipedreamStates& states, const PipedreamLevel& level, int machines_below,
             const LevelTable* below, bool last, const PipedreamOptions& options)
      : states_(states),
        level_(level),
        below_(below),
        n_(static_cast<int>(states.count())),
        machines_(level.machines),
        machines_below_(machines_below),
        options_(options) {
    holds_.assign(static_cast<std::size_t>(n_) * static_cast<std::size_t>(n_), 0);
    for (int j = 0; j < n_; ++j) {
      char* row = holds_.data() + static_cast<std::size_t>(j) * static_cast<std::size_t>(n_);
      const std::vector<int>& before = states.before[static_cast<std::size_t>(j)];
      if (before.empty()) std::fill(row, row + j, char{1});
      for (const int k : before) row[k] = 1;
    }
    const int starts = last ? 1 : n_;
    best_.assign(static_cast<std::size_t>(starts) * size(), kInfinity);
    from_.assign(best_.size(), {});
    for (int i = 0; i < starts; ++i) {
      if (options_.should_stop && options_.should_stop()) {
        stopped_ = true;
        return;
      }
      fill(i);
    }
  }

  bool stopped() const { return stopped_; }
  std::int64_t work() const { return work_; }
  double best(int i, int j, int m) const { return best_[cell(i, j, m)]; }

  // Appends the stages of A(i, j, m), in order; `outer` replicas of all of it.
  void stages(int i, int j, int m, int outer, std::vector<PipedreamStage>& out) const {
    const Split& split = from_[cell(i, j, m)];
    if (split.k < 0) return innermost(i, j, m * outer, out);
    stages(i, split.k, m - split.replicas, outer, out);
    innermost(split.k + 1, j, split.replicas * outer, out);
  }

 private:
  std::size_t size() const {
    return static_cast<std::size_t>(n_) * static_cast<std::size_t>(machines_);
  }
  std::size_t cell(int i, int j, int m) const {
    return static_cast<std::size_t>(i) * size() +
           static_cast<std::size_t>(j) * static_cast<std::size_t>(machines_) +
           static_cast<std::size_t>(m - 1);
  }

  void innermost(int i, int j, int replicas, std::vector<PipedreamStage>& out) const {
    if (below_ == nullptr) {
      out.push_back({i, j, replicas});
    } else {
      below_->stages(i, j, below_->machines_, replicas, out);
    }
  }

  double difference(const std::vector<double>& sums, int i, int j) const {
    return sums[static_cast<std::size_t>(j)] - (i > 0 ? sums[static_cast<std::size_t>(i - 1)] : 0);
  }

  double compute_s(int i, int j) const {
    return below_ == nullptr ? difference(states_.compute_s, i, j)
                             : below_->best(i, j, below_->machines_);
  }

  // One stage of states i..j on m machines.
  double stage_s(int i, int j, int m, double bandwidth_bytes_per_s) const {
    const double sync_s =
        4 * (m - 1) * difference(states_.parameter_bytes, i, j) / (bandwidth_bytes_per_s * m);
    const double t = compute_s(i, j);
    return (options_.variant == PipedreamVariant::kCode ? t + sync_s : std::max(t, sync_s)) / m;
  }

  // Copies of what is kept for a mini-batch: machines from here on over replicas.
  bool fits(int i, int j, double copies) const {
    if (options_.memory_bytes <= 0) return true;
    return std::ceil(copies) * (difference(states_.activation_bytes, i, j) +
                                difference(states_.parameter_bytes, i, j)) <=
           options_.memory_bytes;
  }

  bool inside(int i, int j) const {
    if (i == 0) return true;
    return holds_[static_cast<std::size_t>(j) * static_cast<std::size_t>(n_) +
                  static_cast<std::size_t>(i - 1)] != 0;
  }

  void fill(int i) {
    for (int j = i; j < n_; ++j) {
      if (!inside(i, j)) continue;
      for (int m = 1; m <= (options_.straight ? 1 : machines_); ++m) fill_one_stage(i, j, m);
      const std::vector<int>& before = states_.before[static_cast<std::size_t>(j)];
      if (before.empty()) {
        for (int k = i; k < j; ++k) fill_splits(i, k, j);
      } else {
        for (auto k = std::ranges::lower_bound(before, i); k != before.end(); ++k) {
          if (inside(i, *k)) fill_splits(i, *k, j);
        }
      }
    }
  }

  void fill_one_stage(int i, int j, int m) {
    const double copies = static_cast<double>(machines_ - m) / m;
    if (!fits(i, j, copies)) return;
    // The code divides the synchronisation inside a lower level by its machines here only.
    const double bandwidth = options_.variant == PipedreamVariant::kCode
                                 ? level_.bandwidth_bytes_per_s * machines_below_
                                 : level_.bandwidth_bytes_per_s;
    best_[cell(i, j, m)] = stage_s(i, j, m, bandwidth);
  }

  void fill_splits(int i, int k, int j) {
    const int most = options_.straight ? 1 : machines_ - 1;
    for (int replicas = 1; replicas <= most; ++replicas) {
      const double last_s = stage_s(k + 1, j, replicas, level_.bandwidth_bytes_per_s);
      double cut_s = 0;
      if (options_.count_activations) {
        const double in_s = 2 * states_.cut_bytes[static_cast<std::size_t>(k)] /
                            (level_.bandwidth_bytes_per_s * replicas);
        const double out_s = 2 * states_.cut_bytes[static_cast<std::size_t>(j)] /
                             (level_.bandwidth_bytes_per_s * replicas);
        cut_s = options_.variant == PipedreamVariant::kCode ? std::max(in_s, out_s) : in_s;
      }
      const double stage_and_cut_s = std::max(last_s, cut_s);
      if (stage_and_cut_s == kInfinity) continue;
      for (int m = replicas + 1; m <= machines_; ++m) {
        ++work_;
        const double value = std::max(best_[cell(i, k, m - replicas)], stage_and_cut_s);
        double& best = best_[cell(i, j, m)];
        if (value >= best) continue;
        if (!fits(k + 1, j, static_cast<double>(machines_ - m) / replicas)) continue;
        best = value;
        from_[cell(i, j, m)] = {k, replicas};
      }
    }
  }

  const PipedreamStates& states_;
  const PipedreamLevel& level_;
  const LevelTable* below_;
  int n_;
  int machines_;
  int machines_below_;
  const PipedreamOptions& options_;
  bool stopped_ = false;
  std::int64_t work_ = 0;
  std::vector<char> holds_;   // [j][i]: whether state i is inside state j
  std::vector<double> best_;  // [i][j][m - 1]
  std::vector<Split> from_;
};

}  // namespace

PipedreamPartition partition_pipedream(const PipedreamStates& states,
                                       const std::vector<PipedreamLevel>& levels,
                                       const PipedreamOptions& options) {
  PipedreamPartition partition;
  if (states.count() == 0 || levels.empty()) return partition;
  std::vector<LevelTable> tables;
  tables.reserve(levels.size());  // they point at one another
  int machines_below = 1;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    tables.emplace_back(states, levels[l], machines_below, l > 0 ? &tables.back() : nullptr,
                        l + 1 == levels.size(), options);
    partition.work += tables.back().work();
    if (tables.back().stopped()) return partition;
    machines_below = levels[l].machines;
  }
  const int last = static_cast<int>(states.count()) - 1;
  const int machines = levels.back().machines;
  partition.bottleneck_s = tables.back().best(0, last, machines);
  if (partition.bottleneck_s == kInfinity) return partition;
  partition.found = true;
  tables.back().stages(0, last, machines, 1, partition.stages);
  return partition;
}

}  // namespace graphpipe

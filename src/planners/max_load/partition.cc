#include "planners/max_load/partition.h"

#include <algorithm>

#include "base/numbers.h"
#include "planners/downsets.h"

namespace graphpipe {
namespace {

class MaxLoadSolver {
 public:
  MaxLoadSolver(const MaxLoadInstance& in, Downsets& sets, const MaxLoadLimits& limits)
      : in_(in),
        sets_(sets),
        limits_(limits),
        columns_(static_cast<std::size_t>((in.accelerators + 1) * (in.cpus + 1))) {}

  MaxLoadPartition solve() {
    MaxLoadPartition result;
    result.downsets = sets_.count();
    sum_sets();
    best_.assign(sets_.count() * columns_, kInfinity);
    from_.assign(best_.size(), {});
    std::fill_n(best_.begin(), columns_, 0.0);
    std::vector<std::uint32_t> inside;
    for (std::size_t set = 1; set < sets_.count(); ++set) {
      // A set holds about as many others as stand before it.
      const double place = static_cast<double>(set) / static_cast<double>(sets_.count());
      tell(limits_.progress, place * place);
      if (limits_.should_stop && limits_.should_stop()) {
        result.outcome = MaxLoadOutcome::kStopped;
        return result;
      }
      sets_.inside(set, inside);
      result.pairs += static_cast<std::int64_t>(inside.size());
      if (result.pairs > limits_.pairs) {
        result.outcome = MaxLoadOutcome::kTooManyPairs;
        return result;
      }
      std::ranges::sort(inside);
      for (const std::uint32_t inner : inside) relax(set, inner);
    }
    const std::size_t whole = sets_.count() - 1;
    result.load_s = best_[whole * columns_ + columns_ - 1];
    if (result.load_s == kInfinity) {
      result.load_s = 0;
      return result;
    }
    result.outcome = MaxLoadOutcome::kFound;
    trace(result);
    return result;
  }

 private:
  struct Sums {
    double accelerator_s = 0, cpu_s = 0, bytes = 0, border_s = 0;
    int unsupported = 0;
  };
  struct From {
    std::uint32_t inner = 0;
    std::uint8_t kind = 0;  // 0: nothing new, 1: accelerator, 2: CPU
  };

  bool touches(std::size_t set, const MaxLoadTensor& tensor) const {
    return std::ranges::any_of(tensor.ops, [&](int op) { return sets_.contains(set, op); });
  }
  bool holds(std::size_t set, const MaxLoadTensor& tensor) const {
    return std::ranges::all_of(tensor.ops, [&](int op) { return sets_.contains(set, op); });
  }

  void sum_sets() {
    sums_.resize(sets_.count());
    border_.resize(sets_.count());
    for (std::size_t set = 1; set < sets_.count(); ++set) {
      const Downsets::Less& less = sets_.below(set).front();
      const MaxLoadOp& op = in_.ops[static_cast<std::size_t>(less.node)];
      Sums sums = sums_[less.set];
      sums.accelerator_s += op.accelerator_s;
      sums.cpu_s += op.cpu_s;
      sums.bytes += op.bytes;
      sums.unsupported += op.on_accelerator ? 0 : 1;
      sums.border_s = 0;
      for (std::size_t t = 0; t < in_.tensors.size(); ++t) {
        if (!touches(set, in_.tensors[t]) || holds(set, in_.tensors[t])) continue;
        border_[set].push_back(static_cast<std::uint32_t>(t));
        sums.border_s += in_.tensors[t].seconds;
      }
      sums_[set] = sums;
    }
  }

  // Tensors on the border of `set` that touch the stage or pass it by, and those on the border of
  // `inner` alone, which all touch it.
  double border_s(std::size_t set, std::size_t inner) const {
    double seconds = sums_[inner].border_s;
    for (const std::uint32_t t : border_[set]) {
      const MaxLoadTensor& tensor = in_.tensors[t];
      bool in_stage = false;
      bool in_inner = false;
      for (const int op : tensor.ops) {
        if (sets_.contains(inner, op)) {
          in_inner = true;
        } else if (sets_.contains(set, op)) {
          in_stage = true;
        }
      }
      if (in_stage && !in_inner) seconds += tensor.seconds;
      if (!in_stage && in_inner) seconds -= tensor.seconds;
    }
    return seconds;
  }

  void relax(std::size_t set, std::uint32_t inner) {
    const Sums& outer = sums_[set];
    const Sums& before = sums_[inner];
    const bool fits = outer.bytes - before.bytes <= in_.accelerator_bytes * (1 + 1e-12) &&
                      outer.unsupported == before.unsupported;
    const double compute_s = outer.accelerator_s - before.accelerator_s;
    double* best = best_.data() + set * columns_;
    const double* past = best_.data() + inner * columns_;
    // No cell that has accelerators is worse than that with one, and no load less than its compute.
    if (fits && in_.accelerators > 0 && compute_s < best[column(1, 0)]) {
      take(best, past, compute_s + border_s(set, inner), set, inner, 1);
    }
    if (in_.cpus > 0) take(best, past, outer.cpu_s - before.cpu_s, set, inner, 2);
  }

  std::size_t column(int accelerators, int cpus) const {
    return static_cast<std::size_t>(accelerators * (in_.cpus + 1) + cpus);
  }

  void take(double* best, const double* past, double load_s, std::size_t set, std::uint32_t inner,
            std::uint8_t kind) {
    for (int a = kind == 1 ? 1 : 0; a <= in_.accelerators; ++a) {
      for (int c = kind == 2 ? 1 : 0; c <= in_.cpus; ++c) {
        const double value =
            std::max(load_s, past[kind == 1 ? column(a - 1, c) : column(a, c - 1)]);
        double& known = best[column(a, c)];
        if (value >= known) continue;
        known = value;
        from_[set * columns_ + column(a, c)] = {inner, kind};
      }
    }
  }

  void trace(MaxLoadPartition& result) const {
    std::size_t set = sets_.count() - 1;
    int a = in_.accelerators;
    int c = in_.cpus;
    while (set != 0) {
      const From& from = from_[set * columns_ + column(a, c)];
      MaxLoadStage stage;
      stage.on_cpu = from.kind == 2;
      for (int op = 0; op < sets_.node_count(); ++op) {
        if (sets_.contains(set, op) && !sets_.contains(from.inner, op)) stage.ops.push_back(op);
      }
      result.stages.push_back(std::move(stage));
      (from.kind == 2 ? c : a) -= 1;
      set = from.inner;
    }
    std::ranges::reverse(result.stages);
  }

  const MaxLoadInstance& in_;
  Downsets& sets_;
  const MaxLoadLimits& limits_;
  std::size_t columns_;
  std::vector<Sums> sums_;
  std::vector<std::vector<std::uint32_t>> border_;  // [set]: tensors that cross its border
  std::vector<double> best_;                        // [set][accelerators][cpus]
  std::vector<From> from_;
};

}  // namespace

MaxLoadPartition partition_max_load(const MaxLoadInstance& instance, const MaxLoadLimits& limits) {
  Downsets sets(instance.successors, limits.downsets, limits.should_stop);
  MaxLoadPartition result;
  result.downsets = sets.count();
  if (!sets.complete()) {
    result.outcome = sets.count() > limits.downsets ? MaxLoadOutcome::kTooManyDownsets
                                                    : MaxLoadOutcome::kStopped;
    return result;
  }
  return MaxLoadSolver(instance, sets, limits).solve();
}

}  // namespace graphpipe

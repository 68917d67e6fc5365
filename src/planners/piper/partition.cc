#include "planners/piper/partition.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/numbers.h"
#include "planners/downsets.h"

namespace graphpipe {
namespace {

constexpr std::uint16_t kNever = UINT16_MAX;       // no such strategy: more devices than any
constexpr std::size_t kMostRemembered = 64 << 20;  // extra seconds of pairs

// Downsets are taken of the graph turned around: a set holds all that follows its members, so a
// larger one is a longer end of the pipeline. A pair (set, inner) is the stage set less inner.
class PiperSolver {
 public:
  PiperSolver(const PiperInstance& in, Downsets& sets, const PiperLimits& limits)
      : in_(in), sets_(sets), limits_(limits), n_(in.ops.size()), degrees_(in.degrees.size()) {
    replicas_ = static_cast<int>(std::min<std::int64_t>(in.devices, in.micro_batches));
    for (int d = 1; d <= std::min(replicas_, in.most_data_degree); ++d) {
      if (in.micro_batches % d == 0) divisors_.push_back(d);
    }
  }

  PiperPartition solve() {
    PiperPartition result;
    result.downsets = sets_.count();
    if (!list_pairs(result)) return result;
    result.pairs = static_cast<std::int64_t>(inner_.size());
    sum_sets();
    double low = least_target();
    double high = kInfinity;
    targets_left_ = std::log2(1 / limits_.precision) + 1;
    // Any target is met by what one stage takes, if it fits at all; so double until one is met.
    for (double t = std::max(low, 1e-12);; t *= 2) {
      if (!feasible(t)) {
        if (stopped_) break;
        low = t;
        if (t > most_target()) break;
        continue;
      }
      high = trace(t, result);
      break;
    }
    while (!stopped_ && high < kInfinity && high - low > limits_.precision * high) {
      targets_left_ = std::log2((high - low) / (limits_.precision * high));
      const double middle = (low + high) / 2;
      if (feasible(middle)) {
        high = trace(middle, result);
      } else {
        low = middle;
      }
    }
    result.outcome = stopped_           ? PiperOutcome::kStopped
                     : high < kInfinity ? PiperOutcome::kFound
                                        : PiperOutcome::kNoPartition;
    result.tps_s = high < kInfinity ? high : 0;
    return result;
  }

 private:
  bool list_pairs(PiperPartition& result) {
    std::vector<std::uint32_t> inside;
    begin_.push_back(0);
    for (std::size_t set = 0; set < sets_.count(); ++set) {
      if (limits_.should_stop && limits_.should_stop()) {
        result.outcome = PiperOutcome::kStopped;
        return false;
      }
      sets_.inside(set, inside);
      inner_.insert(inner_.end(), inside.begin(), inside.end());
      begin_.push_back(inner_.size());
      result.pairs = static_cast<std::int64_t>(inner_.size());
      if (result.pairs > limits_.pairs) {
        result.outcome = PiperOutcome::kTooManyPairs;
        return false;
      }
    }
    return true;
  }

  struct Sums {
    double seconds = 0, parameter_bytes = 0, a = 0, b = 0;  // as they are
    double save_a = 0, save_b = 0;                          // by recomputing all
    double in_bytes = 0, out_bytes = 0;  // over the set's border, with what `to` (`from`) adds
  };

  void sum_sets() {
    sums_.assign(sets_.count() * degrees_, {});
    least_work_.assign(sets_.count(), 0);
    border_.resize(sets_.count());
    std::vector<double> node_work(n_, kInfinity);
    for (std::size_t v = 0; v < n_; ++v) {
      for (std::size_t t = 0; t < degrees_; ++t) {
        node_work[v] = std::min(node_work[v], in_.degrees[t] * in_.ops[v][t].seconds);
      }
    }
    for (std::size_t set = 1; set < sets_.count(); ++set) {
      const Downsets::Less& less = sets_.below(set).front();
      const auto v = static_cast<std::size_t>(less.node);
      least_work_[set] = least_work_[less.set] + node_work[v];
      for (std::size_t e = 0; e < in_.links.size(); ++e) {
        if (!sets_.contains(set, in_.links[e].from) && sets_.contains(set, in_.links[e].to)) {
          border_[set].push_back(e);
        }
      }
      for (std::size_t t = 0; t < degrees_; ++t) {
        Sums sums = sums_[less.set * degrees_ + t];
        const PiperCost& cost = in_.ops[v][t];
        sums.seconds += cost.seconds;
        sums.parameter_bytes += cost.parameter_bytes;
        sums.a += cost.a_bytes;
        sums.b += cost.b_bytes;
        sums.save_a += cost.a_bytes - cost.recompute_a_bytes;
        sums.save_b += cost.b_bytes - cost.recompute_b_bytes;
        sums.in_bytes = sums.out_bytes = 0;
        for (const std::size_t e : border_[set]) {
          sums.in_bytes += in_.links[e].bytes + in_.links[e].to_sync_bytes[t];
          sums.out_bytes += in_.links[e].bytes + in_.links[e].from_sync_bytes[t];
        }
        sums_[set * degrees_ + t] = sums;
      }
    }
    remember_ =
        inner_.size() * degrees_ * static_cast<std::size_t>(replicas_ + 1) <= kMostRemembered;
    if (remember_) {
      extra_.assign(inner_.size() * degrees_ * static_cast<std::size_t>(replicas_ + 1), -1);
    }
  }

  double least_target() const { return least_work_.back() / in_.devices * (1 - 1e-9); }
  double most_target() const {
    double all = 0;
    for (std::size_t t = 0; t < degrees_; ++t) {
      const Sums& sums = sums_[(sets_.count() - 1) * degrees_ + t];
      all = std::max(all, sums.seconds + 4 * sums.parameter_bytes / in_.bandwidth_bytes_per_s);
    }
    for (const auto& op : in_.ops) {
      for (const PiperCost& cost : op) all += cost.recompute_seconds;
    }
    for (const PiperLink& link : in_.links) {
      all += 4 * link.bytes / in_.bandwidth_bytes_per_s;
      for (std::size_t t = 0; t < degrees_; ++t) {
        all += 2 * (link.to_sync_bytes[t] + link.from_sync_bytes[t]) / in_.bandwidth_bytes_per_s;
      }
    }
    return 2 * all;
  }

  // A stage at one degree t.
  struct Stage {
    std::size_t set = 0, inner = 0, pair = 0, t = 0;
    Sums sums;
    double border_bytes = 0;
    int plain_y = 0;  // micro-batches in flight that fit without recomputation
    int most_y = 0;   // and with all recomputing
  };

  int y_that_fits(double a, double b) const {
    const double room = in_.memory_bytes - b;
    if (room < 0) return 0;
    if (a <= 0) return replicas_;
    return static_cast<int>(std::min<double>(replicas_, std::floor(room / a)));
  }

  Stage stage(std::size_t set, std::size_t pair, std::size_t t) const {
    Stage s;
    s.set = set;
    s.inner = inner_[pair];
    s.pair = pair;
    s.t = t;
    const Sums& outer = sums_[set * degrees_ + t];
    const Sums& inner = sums_[s.inner * degrees_ + t];
    s.sums.seconds = outer.seconds - inner.seconds;
    s.sums.parameter_bytes = outer.parameter_bytes - inner.parameter_bytes;
    s.sums.a = outer.a - inner.a;
    s.sums.b = outer.b - inner.b;
    s.sums.save_a = outer.save_a - inner.save_a;
    s.sums.save_b = outer.save_b - inner.save_b;
    s.border_bytes = outer.in_bytes + inner.out_bytes;
    for (const std::size_t e : border_[set]) {  // those that pass the stage by
      const PiperLink& link = in_.links[e];
      if (!sets_.contains(s.inner, link.to)) continue;
      s.border_bytes -= 2 * link.bytes + link.to_sync_bytes[t] + link.from_sync_bytes[t];
    }
    s.plain_y = y_that_fits(s.sums.a, s.sums.b);
    s.most_y = std::max(s.plain_y, y_that_fits(s.sums.a - s.sums.save_a, s.sums.b - s.sums.save_b));
    return s;
  }

  double tps(const Stage& s, int d, double extra_s) const {
    return (s.sums.seconds + extra_s) / d +
           (2 * s.border_bytes / d +
            4.0 * (d - 1) / d * s.sums.parameter_bytes / static_cast<double>(in_.micro_batches)) /
               in_.bandwidth_bytes_per_s;
  }

  double saving(std::size_t v, std::size_t t, int y) const {
    const PiperCost& cost = in_.ops[v][t];
    return (cost.a_bytes - cost.recompute_a_bytes) * y + cost.b_bytes - cost.recompute_b_bytes;
  }

  // Operators that save anything, the cheapest a byte first.
  const std::vector<int>& order(std::size_t t, int y) {
    const auto [known, fresh] = orders_.try_emplace({t, y});
    if (!fresh) return known->second;
    std::vector<std::pair<double, int>> list;
    for (std::size_t v = 0; v < n_; ++v) {
      const double bytes = saving(v, t, y);
      const PiperCost& cost = in_.ops[v][t];
      if (bytes > 0)
        list.emplace_back((cost.recompute_seconds - cost.seconds) / bytes, static_cast<int>(v));
    }
    std::ranges::sort(list);
    for (const auto& [ratio, v] : list) known->second.push_back(v);
    return known->second;
  }

  // Seconds that recomputation adds where y are in flight; `chosen`: by which operators.
  double extra_s(const Stage& s, int y, std::vector<int>* chosen = nullptr) {
    if (y <= s.plain_y) return 0;
    if (y > s.most_y) return kInfinity;
    float* known = nullptr;
    if (remember_) {
      known = &extra_[(s.pair * degrees_ + s.t) * static_cast<std::size_t>(replicas_ + 1) +
                      static_cast<std::size_t>(y)];
      if (*known >= 0 && chosen == nullptr) return static_cast<double>(*known);
    }
    double need = s.sums.a * y + s.sums.b - in_.memory_bytes;
    double extra = 0;
    for (const int v : order(s.t, y)) {
      if (need <= 0) break;
      if (!sets_.contains(s.set, v) || sets_.contains(s.inner, v)) continue;
      const auto at = static_cast<std::size_t>(v);
      need -= saving(at, s.t, y);
      extra += in_.ops[at][s.t].recompute_seconds - in_.ops[at][s.t].seconds;
      if (chosen != nullptr) chosen->push_back(v);
    }
    if (need > 0) extra = kInfinity;
    if (known != nullptr) *known = static_cast<float>(extra);
    return extra;
  }

  // The most in flight at which the stage meets the target on d replicas; 0: none.
  int most_in_flight(const Stage& s, int d, double target) {
    if (tps(s, d, 0) > target) return 0;
    const int wanted = (replicas_ + d - 1) / d;
    int low = std::min(s.plain_y, wanted);
    int high = std::min(s.most_y, wanted);
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (tps(s, d, extra_s(s, middle)) <= target) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  // Calls use(d, s) for the ranges of s on which d is the least that meets the target: from d (or
  // beyond the smaller d's) to the last.
  template <typename Use>
  void for_ranges(const Stage& s, double target, const Use& use) {
    int reached = 0;
    for (const int d : divisors_) {
      if (reached >= replicas_ || d * in_.degrees[s.t] > in_.devices) break;
      const int y = most_in_flight(s, d, target);
      const int last = static_cast<int>(std::min<std::int64_t>(replicas_, std::int64_t{d} * y));
      const int first = std::max(reached + 1, d);
      if (last < first) continue;
      use(d, first, last);
      reached = last;
    }
  }

  std::size_t row(std::size_t set) const { return set * static_cast<std::size_t>(replicas_ + 1); }

  // Of the target at hand the pairs up to this set are done.
  void tell_progress(std::size_t set) const {
    if (!limits_.progress) return;
    const double part = static_cast<double>(begin_[set]) / static_cast<double>(inner_.size());
    const double done = targets_ - 1 + part;
    limits_.progress(done / (done + std::max(1.0, targets_left_) - part));
  }

  // Whether devices suffice; leaves the table filled.
  bool feasible(double target) {
    table_.assign(sets_.count() * static_cast<std::size_t>(replicas_ + 1), kNever);
    std::fill_n(table_.begin(), replicas_ + 1, std::uint16_t{0});
    ++targets_;
    const std::size_t whole = sets_.count() - 1;
    for (std::size_t set = 1; set <= whole; ++set) {
      if (set % 64 == 0) {
        tell_progress(set);
        if (limits_.should_stop && limits_.should_stop()) {
          stopped_ = true;
          return false;
        }
      }
      const double before = (least_work_[whole] - least_work_[set]) / target;
      if (before + least_work_[set] / target > in_.devices * (1 + 1e-9)) return false;
      std::uint16_t* out = table_.data() + row(set);
      for (std::size_t pair = begin_[set]; pair < begin_[set + 1]; ++pair) {
        const std::size_t inner = inner_[pair];
        const std::uint16_t* from = table_.data() + row(inner);
        if (from[replicas_] == kNever) continue;
        const double room = in_.devices * (1 + 1e-9) - before - from[replicas_];
        for (std::size_t t = 0; t < degrees_; ++t) {
          const double seconds =
              sums_[set * degrees_ + t].seconds - sums_[inner * degrees_ + t].seconds;
          if (seconds * in_.degrees[t] > room * target) continue;
          add(stage(set, pair, t), target, from, out);
        }
      }
    }
    const std::uint16_t least = table_[row(whole) + static_cast<std::size_t>(replicas_)];
    return least <= in_.devices;
  }

  void add(const Stage& s, double target, const std::uint16_t* from, std::uint16_t* out) {
    const int degree = in_.degrees[s.t];
    for_ranges(s, target, [&](int d, int first, int last) {
      const int devices = d * degree;
      for (int r = first; r <= last; ++r) {
        const int sum =
            from[r - d] == kNever ? kNever : std::min<int>(from[r - d] + devices, kNever);
        out[r] = std::min<std::uint16_t>(out[r], static_cast<std::uint16_t>(sum));
      }
      // More replicas than the last are no worse a bound for what is inside.
    });
    for (int r = 1; r <= replicas_; ++r) out[r] = std::min(out[r], out[r - 1]);
  }

  // The strategy that the filled table has, into `result`; its slowest stage.
  double trace(double target, PiperPartition& result) {
    result.stages.clear();
    double slowest_s = 0;
    std::size_t set = sets_.count() - 1;
    int replicas = replicas_;
    while (set != 0) {
      // Where the bound is not tight the row says the same further left.
      const std::uint16_t devices = table_[row(set) + static_cast<std::size_t>(replicas)];
      while (replicas > 1 && table_[row(set) + static_cast<std::size_t>(replicas) - 1] == devices)
        --replicas;
      const auto [next, d, seconds] = step(set, replicas, devices, target, result);
      slowest_s = std::max(slowest_s, seconds);
      set = next;
      replicas -= d;
    }
    return slowest_s;
  }

  struct Step {
    std::size_t set;
    int replicas;
    double seconds;
  };

  Step step(std::size_t set, int replicas, int devices, double target, PiperPartition& result) {
    for (std::size_t pair = begin_[set]; pair < begin_[set + 1]; ++pair) {
      for (std::size_t t = 0; t < degrees_; ++t) {
        const Stage s = stage(set, pair, t);
        int found = 0;
        for_ranges(s, target, [&](int d, int first, int last) {
          if (found != 0 || replicas < first || replicas > last) return;
          const int rest = table_[row(s.inner) + static_cast<std::size_t>(replicas - d)];
          if (rest + d * in_.degrees[t] == devices) found = d;
        });
        if (found == 0) continue;
        const int y = (replicas + found - 1) / found;
        std::vector<int> chosen;
        const double seconds = tps(s, found, extra_s(s, y, &chosen));
        add_stage(s, found, chosen, result);
        return {s.inner, found, seconds};
      }
    }
    return {0, replicas, kInfinity};  // not reached: the table has it
  }

  void add_stage(const Stage& s, int d, std::vector<int> chosen, PiperPartition& result) const {
    PiperStage out;
    out.data_degree = d;
    out.tensor_degree = in_.degrees[s.t];
    std::ranges::sort(chosen);
    for (int v = 0; v < static_cast<int>(n_); ++v) {
      if (!sets_.contains(s.set, v) || sets_.contains(s.inner, v)) continue;
      out.ops.push_back(v);
      out.recompute.push_back(std::ranges::binary_search(chosen, v));
    }
    result.stages.push_back(std::move(out));
  }

  const PiperInstance& in_;
  Downsets& sets_;
  const PiperLimits& limits_;
  std::size_t n_;
  std::size_t degrees_;
  int replicas_ = 1;  // the most in sum
  std::vector<int> divisors_;
  std::vector<std::uint32_t> inner_;  // pairs, by their larger set
  std::vector<std::size_t> begin_;
  std::vector<Sums> sums_;          // [set][degree]
  std::vector<double> least_work_;  // [set]: device seconds
  std::vector<std::vector<std::size_t>> border_;
  bool remember_ = false;
  std::vector<float> extra_;  // [pair][degree][y]; -1: not known
  std::map<std::pair<std::size_t, int>, std::vector<int>> orders_;
  std::vector<std::uint16_t> table_;  // [set][s]: devices
  bool stopped_ = false;
  double targets_ = 0;       // begun
  double targets_left_ = 0;  // about, with the one at hand
};

}  // namespace

PiperPartition partition_piper(const PiperInstance& instance, const PiperLimits& limits) {
  Successors turned(instance.ops.size());
  for (const PiperLink& link : instance.links) {
    turned[static_cast<std::size_t>(link.to)].push_back(link.from);
  }
  Downsets sets(turned, limits.downsets, limits.should_stop);
  PiperPartition result;
  result.downsets = sets.count();
  if (!sets.complete()) {
    result.outcome =
        sets.count() > limits.downsets ? PiperOutcome::kTooManyDownsets : PiperOutcome::kStopped;
    return result;
  }
  return PiperSolver(instance, sets, limits).solve();
}

}  // namespace graphpipe

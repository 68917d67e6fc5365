// Time and memory of candidate stages at one micro-batch size.
//
// Symbols: b  micro-batch;  d  width;  n  samples of a task: ceil(b / d), and b where replicas
//          take turns;  M  number of micro-batches;  level  in-flight samples over b: a sink has
//          level 1, a stage one more than the highest of its successors. Of d replicas in turns
//          it is the next multiple of d that is d more, and each holds a d-th of it.
// In plans of streams (PlanOptions::weights) replicas take turns: n = b, levels are rounds of the
// replicas (from below, where stages differ in width), a round ends in a reduction, and memory has
// the versions of weights.

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "planners/cost_table.h"
#include "planners/graphpipe/stage_sums.h"

namespace graphpipe {

// What the search may do. The defaults are the planner's; tests narrow them.
struct SearchRules {
  bool seams = true;            // see line_solver.h
  bool message_buffers = true;  // count them as memory
  // Count messages for whatever widths and levels a stage's neighbours may have. Without,
  // neighbours are taken to be as wide as the stage, and no higher or lower than what lies
  // between makes them; a plan found so is to be held against stage_memory().
  bool loose_windows = false;
  // Of a device's memory, what a stage may take by the bound: above 1, plans are found that the
  // bound alone would refuse, to be held against stage_memory().
  double memory_share = 1;
  // Replicas of a stage take whole micro-batches in turn, in place of parts of each. Only runs are
  // replicated then: what rides with a branch, and branches together, have one device.
  bool turns = false;
  // Spread the time by which a stage's reduction outlasts its last backward over the iteration:
  // where links are slow, what is replicated is what has few parameters.
  bool reduction = false;
  std::vector<int> widths;  // ascending; empty: all that make sense
  int devices = 0;          // as if there were so many; 0: those of the cluster
};

// Costs of all operators at one number of samples, by position, as prefix sums.
struct SampleColumn {
  std::vector<double> compute_s;           // [position]: of the positions before
  std::vector<double> recompute_s;         // likewise; empty where no stage may recompute
  std::vector<std::int64_t> saved_bytes;   // likewise
  std::vector<std::int64_t> beside_bytes;  // likewise, OpTaskMemory::beside_bytes
  // [k][position]: the largest OpTaskMemory::worst_bytes of 2^k positions from here; empty:
  // all zero.
  std::vector<std::vector<std::int64_t>> worst;
  std::int64_t worst_bytes(Span span) const;
};

// Columns, made on first use and kept over micro-batch sizes.
class ColumnStore {
 public:
  ColumnStore(CostTable& table, const Pieces& pieces) : table_(table), pieces_(pieces) {}
  const SampleColumn& at(std::int64_t samples);
  CostTable& table() { return table_; }

 private:
  CostTable& table_;
  const Pieces& pieces_;
  std::map<std::int64_t, SampleColumn> columns_;
};

class StageCosts {
 public:
  StageCosts(ColumnStore& store, std::int64_t micro_batch, const SearchRules& rules);

  // Widths to try, ascending: of those that give the fullest replica the same work, the least.
  int width_count() const { return static_cast<int>(widths_.size()); }
  int width(int i) const { return widths_[static_cast<std::size_t>(i)].devices; }
  int device_count() const { return devices_; }
  std::int64_t micro_batch() const { return b_; }
  std::int64_t micro_batches() const { return m_; }
  const SearchRules& rules() const { return rules_; }
  // The level of a stage whose highest successor has this one.
  int level_above(int level, int i) const;

  double compute_tps_s(Span span, int i) const;
  // As stage_tps_s() has it; and by the rules the reduction's part. `spans` are the stage's
  // positions, `sums` theirs.
  double tps_s(const StageSums& sums, std::span<const Span> spans, int i,
               bool recompute = false) const;
  // Whether the stage may recompute and has a backward to do so for.
  bool may_recompute(const StageSums& sums) const { return recompute_ && sums.with_gradient > 0; }
  // The same, with the forward again where memory at this level asks for it.
  double tps_at_level_s(const StageSums& sums, std::span<const Span> spans, int i,
                        std::int64_t level) const;
  // Of the fullest device; with loose windows an upper bound of stage_memory().
  std::int64_t memory_bytes(const StageSums& sums, std::span<const Span> spans, int i,
                            std::int64_t level, bool recompute = false) const;
  // Whether memory suffices within a time per sample of t: kept values first, else, where the
  // options have it, forwards run again.
  bool fits(const StageSums& sums, std::span<const Span> spans, int i, std::int64_t level,
            double t) const;
  // The index of the least width with tps_s() <= t that fits, the first alone where replicas take
  // turns; -1: none.
  int least_width(const StageSums& sums, std::span<const Span> spans, std::int64_t level,
                  double t) const;
  // With loose windows of so many micro-batches, whatever the rules: an upper bound of
  // stage_memory() where no stage has more micro-batches in flight or levels above it.
  std::int64_t memory_bound_bytes(const StageSums& sums, std::span<const Span> spans, int i,
                                  std::int64_t level, std::int64_t window,
                                  bool recompute = false) const;
  std::int64_t memory_limit_bytes() const { return memory_limit_bytes_; }

 private:
  struct Width {
    int devices = 1;
    std::int64_t samples = 1;  // n
    double share = 1;          // of the micro-batches, the fullest replica's
    const SampleColumn* column = nullptr;
    int turns = 1;  // replicas that take micro-batches in turn: those of streams
  };
  // Of the stage's gradients over its replicas, wherever it is placed.
  double reduction_s(const StageSums& sums, const Width& width) const;
  double round_reduction_tps_s(const StageSums& sums, const Width& width) const;
  double end_reduction_tps_s(const StageSums& sums, double compute_tps_s, int i) const;
  std::int64_t versions_bytes(const StageSums& sums, std::int64_t tasks) const;
  std::int64_t tight_message_bytes(const StageSums& sums, std::int64_t samples) const;
  std::int64_t loose_message_bytes(const StageSums& sums, std::int64_t samples,
                                   std::int64_t window) const;
  std::int64_t memory_without_messages(const StageSums& sums, std::span<const Span> spans, int i,
                                       std::int64_t level, bool recompute,
                                       std::int64_t beside_bytes) const;
  // What a task takes beside what is saved and its worst operator.
  std::int64_t beside_bytes(const StageSums& sums, std::span<const Span> spans, int i) const;

  std::int64_t b_;
  std::int64_t m_;
  int devices_;
  std::int64_t memory_limit_bytes_;
  std::int64_t bound_limit_bytes_;  // by the rules' share
  bool recompute_;
  const Problem& problem_;
  Link link_;
  SearchRules rules_;
  std::vector<Width> widths_;
};

}  // namespace graphpipe

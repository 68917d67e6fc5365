// What the iterations of a run took, on every rank: measured around RankTrainer::train,
// gathered at the end.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/iteration_totals.h"
#include "runtime/rank_trainer.h"
#include "runtime/transport/transport.h"
#include "schedule/trace.h"

namespace graphpipe {

class RunMeter {
 public:
  explicit RunMeter(RankTrainer& trainer) : trainer_(trainer) {}

  // RankTrainer::train, measured. `full`: the mini-batch has the plan's size.
  IterationResult train(const std::vector<std::int64_t>& ids, std::int64_t iteration, bool metrics,
                        const StepPart& part, bool full);

  // RankTrainer::train_stream, measured; its mini-batches count as iterations.
  std::vector<double> train_stream(const std::vector<std::int64_t>& ids, std::int64_t first);

  // The steady iterations of every rank: those over full mini-batches but the first, which
  // fills caches; where there is none, all. Collective; the same on every rank.
  std::vector<IterationTotals> gather(Transport& transport) const;

  // The last iteration of all ranks on one clock (their machine's). Collective; whole on
  // every rank.
  Trace gather_trace(Transport& transport, std::int64_t samples) const;

 private:
  RankTrainer& trainer_;
  IterationTotals steady_;
  IterationTotals all_;
  double last_start_s_ = 0;  // monotonic_s()
  double last_end_s_ = 0;
};

}  // namespace graphpipe

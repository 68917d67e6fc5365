#include "runtime/run_meter.h"

#include <algorithm>
#include <array>
#include <limits>

#include "job/fault.h"
#include "runtime/shared_table.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kTotalColumns = 9;

void put_totals(const IterationTotals& totals, double* row) {
  const std::array<double, kTotalColumns> values = {static_cast<double>(totals.iterations),
                                                    totals.wall_s,
                                                    totals.compute_s,
                                                    totals.compute_cpu_s,
                                                    totals.step_cpu_s,
                                                    totals.total_cpu_s,
                                                    static_cast<double>(totals.actions),
                                                    static_cast<double>(totals.peak_bytes),
                                                    static_cast<double>(totals.bytes_sent)};
  std::copy(values.begin(), values.end(), row);
}

IterationTotals take_totals(const double* row) {
  IterationTotals totals;
  totals.iterations = static_cast<std::int64_t>(row[0]);
  totals.wall_s = row[1];
  totals.compute_s = row[2];
  totals.compute_cpu_s = row[3];
  totals.step_cpu_s = row[4];
  totals.total_cpu_s = row[5];
  totals.actions = static_cast<std::int64_t>(row[6]);
  totals.peak_bytes = static_cast<std::int64_t>(row[7]);
  totals.bytes_sent = static_cast<std::int64_t>(row[8]);
  return totals;
}

constexpr std::int64_t kEventColumns = 12;

void put_event(const TraceEvent& event, double offset_s, double* row) {
  const Action& action = event.action;
  const std::array<double, kEventColumns> values = {static_cast<double>(action.kind),
                                                    static_cast<double>(action.stage.value),
                                                    static_cast<double>(action.replica),
                                                    static_cast<double>(action.micro_batch),
                                                    static_cast<double>(action.samples.lo),
                                                    static_cast<double>(action.samples.hi),
                                                    static_cast<double>(action.edge.value),
                                                    static_cast<double>(action.direction),
                                                    static_cast<double>(action.peer.value),
                                                    static_cast<double>(action.bytes),
                                                    event.start_s + offset_s,
                                                    event.end_s + offset_s};
  std::copy(values.begin(), values.end(), row);
}

TraceEvent take_event(RankId rank, const double* row) {
  TraceEvent event;
  event.rank = rank;
  Action& action = event.action;
  action.kind = static_cast<ActionKind>(row[0]);
  action.stage = StageId(static_cast<std::int32_t>(row[1]));
  action.replica = static_cast<int>(row[2]);
  action.micro_batch = static_cast<std::int64_t>(row[3]);
  action.samples = {static_cast<std::int64_t>(row[4]), static_cast<std::int64_t>(row[5])};
  action.edge = EdgeId(static_cast<std::int32_t>(row[6]));
  action.direction = static_cast<Direction>(row[7]);
  action.peer = RankId(static_cast<std::int32_t>(row[8]));
  action.bytes = static_cast<std::int64_t>(row[9]);
  event.start_s = row[10];
  event.end_s = row[11];
  return event;
}

void add_iterations(IterationTotals& totals, const RankMeasurement& before,
                    const RankMeasurement& after, double wall_s) {
  totals.iterations += after.iterations - before.iterations;
  totals.wall_s += wall_s;
  totals.compute_s += after.compute_s - before.compute_s;
  totals.compute_cpu_s += after.compute_cpu_s - before.compute_cpu_s;
  totals.step_cpu_s += after.step_cpu_s - before.step_cpu_s;
  totals.total_cpu_s += after.total_cpu_s - before.total_cpu_s;
  totals.actions += after.actions - before.actions;
  totals.bytes_sent += after.bytes_sent - before.bytes_sent;
  totals.peak_bytes = std::max(totals.peak_bytes, after.peak_bytes);
}

}  // namespace

IterationResult RunMeter::train(const std::vector<std::int64_t>& ids, std::int64_t iteration,
                                bool metrics, const StepPart& part, bool full) {
  const RankMeasurement before = trainer_.measurement();
  last_start_s_ = monotonic_s();
  const IterationResult result = trainer_.train(ids, iteration, metrics, part);
  last_end_s_ = monotonic_s();
  const RankMeasurement after = trainer_.measurement();
  const double wall_s = last_end_s_ - last_start_s_;
  if (full && all_.iterations > 0) add_iterations(steady_, before, after, wall_s);
  add_iterations(all_, before, after, wall_s);
  return result;
}

std::vector<double> RunMeter::train_stream(const std::vector<std::int64_t>& ids,
                                           std::int64_t first) {
  const RankMeasurement before = trainer_.measurement();
  const double start_s = monotonic_s();
  std::vector<double> losses = trainer_.train_stream(ids, first);
  add_iterations(all_, before, trainer_.measurement(), monotonic_s() - start_s);
  return losses;
}

std::vector<IterationTotals> RunMeter::gather(Transport& transport) const {
  SharedTable table(transport.size(), kTotalColumns);
  // Every rank runs the same iterations, so all of them choose alike.
  put_totals(steady_.iterations > 0 ? steady_ : all_, table.row(transport.rank()));
  table.exchange(transport);
  std::vector<IterationTotals> totals;
  for (int rank = 0; rank < transport.size(); ++rank)
    totals.push_back(take_totals(table.row(rank)));
  return totals;
}

Trace RunMeter::gather_trace(Transport& transport, std::int64_t samples) const {
  const Trace& own = trainer_.trace();
  const auto own_rank = static_cast<std::size_t>(transport.rank());
  constexpr std::int64_t kColumns = 5;  // events, start, end, busy, peak
  SharedTable ranks(transport.size(), kColumns);
  const RankUse use = own_rank < own.ranks.size() ? own.ranks[own_rank] : RankUse{};
  const std::array<double, kColumns> values = {static_cast<double>(own.events.size()),
                                               last_start_s_, last_end_s_, use.busy_s,
                                               static_cast<double>(use.peak_memory_bytes)};
  std::copy(values.begin(), values.end(), ranks.row(transport.rank()));
  ranks.exchange(transport);

  std::int64_t event_count = 0;
  std::int64_t own_first = 0;
  double start_s = std::numeric_limits<double>::infinity();
  double end_s = 0;
  for (int rank = 0; rank < transport.size(); ++rank) {
    if (rank == transport.rank()) own_first = event_count;
    const double* row = ranks.row(rank);
    event_count += static_cast<std::int64_t>(row[0]);
    start_s = std::min(start_s, row[1]);
    end_s = std::max(end_s, row[2]);
  }
  SharedTable events(event_count, kEventColumns);
  for (std::size_t i = 0; i < own.events.size(); ++i) {
    put_event(own.events[i], last_start_s_ - start_s,
              events.row(own_first + static_cast<std::int64_t>(i)));
  }
  events.exchange(transport);

  Trace trace;
  trace.iteration_s = end_s - start_s;
  trace.samples = samples;
  std::int64_t next = 0;
  for (int rank = 0; rank < transport.size(); ++rank) {
    const double* row = ranks.row(rank);
    trace.ranks.push_back({row[3], static_cast<std::int64_t>(row[4])});
    for (const std::int64_t end = next + static_cast<std::int64_t>(row[0]); next < end; ++next) {
      trace.events.push_back(take_event(RankId(rank), events.row(next)));
    }
  }
  std::stable_sort(trace.events.begin(), trace.events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.start_s < b.start_s; });
  return trace;
}

}  // namespace graphpipe

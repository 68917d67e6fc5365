#include "planners/graphpipe/stage_costs.h"

#include <algorithm>
#include <cmath>

#include "base/divide_up.h"
#include "base/numbers.h"
#include "plan/stage_memory.h"

namespace graphpipe {
namespace {

// Of a message beside its tensors: 8 bytes a sample's id; header, and each tensor's padding.
constexpr std::int64_t kIdBytes = 8;
constexpr std::int64_t kEmptyBytes = kMessageHeaderBytes + 2 * std::int64_t{64};

// Of a reduction at least this part comes after the last backward, which is about so much of a
// task.
constexpr double kReducedAfter = 0.25;
constexpr double kBackwardOfTask = 2.0 / 3;

// All up to 8; beyond, powers of two and their halves more (12, 24, ...), and all devices.
std::vector<int> sensible_widths(int devices) {
  std::vector<int> widths;
  for (int d = 1; d <= std::min(devices, 8); ++d) widths.push_back(d);
  for (int d = 12; d <= devices; d = d % 3 == 0 ? d / 3 * 4 : d / 2 * 3) widths.push_back(d);
  if (widths.back() != devices) widths.push_back(devices);
  return widths;
}

}  // namespace

std::int64_t SampleColumn::worst_bytes(Span span) const {
  if (worst.empty() || span.end <= span.begin) return 0;
  std::size_t k = 0;  // the largest with 2^k positions in the span
  while ((std::size_t{2} << k) <= at(span.end - span.begin)) ++k;
  return std::max(worst[k][at(span.begin)], worst[k][at(span.end) - (std::size_t{1} << k)]);
}

const SampleColumn& ColumnStore::at(std::int64_t samples) {
  const auto [found, fresh] = columns_.try_emplace(samples);
  SampleColumn& column = found->second;
  if (!fresh) return column;
  const CostTable::Column& costs = table_.at(samples);
  const double slowdown = compute_slowdown(*table_.problem().cluster);
  column.compute_s.push_back(0);
  column.saved_bytes.push_back(0);
  column.beside_bytes.push_back(0);
  if (!costs.recompute_s.empty()) column.recompute_s.push_back(0);
  std::vector<std::int64_t> worst;
  for (const PositionInfo& info : pieces_.positions) {
    const std::size_t i = info.op.index();
    const double seconds = (costs.forward_s[i] + costs.backward_s[i]) * slowdown;
    column.compute_s.push_back(column.compute_s.back() + seconds);
    column.saved_bytes.push_back(column.saved_bytes.back() + costs.saved_bytes[i]);
    if (!costs.recompute_s.empty()) {
      column.recompute_s.push_back(column.recompute_s.back() + costs.recompute_s[i] * slowdown);
    }
    column.beside_bytes.push_back(column.beside_bytes.back() + costs.task[i].beside_bytes);
    worst.push_back(costs.task[i].worst_bytes);
  }
  if (std::ranges::all_of(worst, [](std::int64_t bytes) { return bytes == 0; })) return column;
  column.worst.push_back(std::move(worst));
  for (std::size_t half = 1; 2 * half <= pieces_.positions.size(); half *= 2) {
    const std::vector<std::int64_t>& last = column.worst.back();
    std::vector<std::int64_t> next;
    for (std::size_t p = 0; p + half < last.size(); ++p) {
      next.push_back(std::max(last[p], last[p + half]));
    }
    column.worst.push_back(std::move(next));
  }
  return column;
}

StageCosts::StageCosts(ColumnStore& store, std::int64_t micro_batch, const SearchRules& rules)
    : b_(micro_batch), problem_(store.table().problem()), rules_(rules) {
  const Problem& problem = problem_;
  const bool streams = plans_streams(problem);
  m_ = divide_up(problem.mini_batch, b_);
  devices_ = rules.devices > 0 ? rules.devices : problem.cluster->device_count();
  memory_limit_bytes_ = store.table().device().memory_bytes;
  bound_limit_bytes_ = std::llround(static_cast<double>(memory_limit_bytes_) * rules.memory_share);
  recompute_ = problem.options.recompute;
  link_ = worst_link(*problem.cluster);
  std::vector<int> widths = rules.widths.empty() ? sensible_widths(devices_) : rules.widths;
  if (!problem.options.data_parallel) widths = {1};
  for (const int d : widths) {
    const bool turns = streams || rules.turns;
    if (d > devices_ || d > (turns ? m_ : b_)) break;
    const std::int64_t samples = turns ? b_ : divide_up(b_, d);
    // A stream has no end at which the replicas with one micro-batch less would wait.
    double share = 1;
    if (streams) share = 1.0 / d;
    if (rules.turns) share = static_cast<double>(divide_up(m_, d)) / static_cast<double>(m_);
    if (!widths_.empty() && widths_.back().samples == samples && widths_.back().share == share) {
      continue;
    }
    widths_.push_back({d, samples, share, &store.at(samples), streams ? d : 1});
  }
}

int StageCosts::level_above(int level, int i) const {
  if (!rules_.turns) return level + 1;
  const int d = widths_[at(i)].devices;
  return (level + 2 * d - 1) / d * d;
}

double StageCosts::compute_tps_s(Span span, int i) const {
  const std::vector<double>& before = widths_[at(i)].column->compute_s;
  return (before[at(span.end)] - before[at(span.begin)]) * widths_[at(i)].share /
         static_cast<double>(b_);
}

double StageCosts::reduction_s(const StageSums& sums, const Width& width) const {
  const Level& node = problem_.cluster->levels[0];
  return problem_.costs->reduce_s(sums.gradient_bytes, width.devices,
                                  width.devices <= node.group_size ? node.link : link_);
}

// Of replicas that sum their gradients after each round.
double StageCosts::round_reduction_tps_s(const StageSums& sums, const Width& width) const {
  if (width.turns < 2) return 0;
  const bool groups = problem_.options.weights == WeightPolicy::k2bw;
  const std::int64_t samples = groups ? problem_.options.stream_mini_batch : b_ * width.turns;
  return reduction_s(sums, width) / static_cast<double>(samples);
}

double StageCosts::tps_s(const StageSums& sums, std::span<const Span> spans, int i,
                         bool recompute) const {
  double tps = 0;
  for (const Span span : spans) tps += compute_tps_s(span, i);
  if (recompute) {
    const std::vector<double>& before = widths_[at(i)].column->recompute_s;
    for (const Span span : spans) {
      tps += (before[at(span.end)] - before[at(span.begin)]) * widths_[at(i)].share /
             static_cast<double>(b_);
    }
  }
  tps += round_reduction_tps_s(sums, widths_[at(i)]);
  const double reduction_s = end_reduction_tps_s(sums, tps, i);
  if (sums.crossing == 0) return tps + reduction_s;
  const std::int64_t n = widths_[at(i)].samples;
  const std::int64_t bytes = std::max(sums.in.of(n), sums.out.of(n));
  const double link_s = static_cast<double>(bytes) / link_.bandwidth_bytes_per_s + link_.latency_s;
  return std::max(tps, link_s * widths_[at(i)].share / static_cast<double>(b_)) + reduction_s;
}

// Buckets are reduced within the last backward, all but the last of them.
double StageCosts::end_reduction_tps_s(const StageSums& sums, double compute_tps_s, int i) const {
  const Width& width = widths_[at(i)];
  if (!rules_.reduction || width.devices == 1) return 0;
  const double all_s = reduction_s(sums, width);
  const double task_s = compute_tps_s * static_cast<double>(b_) / width.share;
  const double after_s = std::max(kReducedAfter * all_s, all_s - kBackwardOfTask * task_s);
  return after_s / static_cast<double>(problem_.mini_batch);
}

double StageCosts::tps_at_level_s(const StageSums& sums, std::span<const Span> spans, int i,
                                  std::int64_t level) const {
  const bool recompute =
      may_recompute(sums) && memory_bytes(sums, spans, i, level) > bound_limit_bytes_;
  return tps_s(sums, spans, i, recompute);
}

bool StageCosts::fits(const StageSums& sums, std::span<const Span> spans, int i, std::int64_t level,
                      double t) const {
  if (memory_bytes(sums, spans, i, level) <= bound_limit_bytes_) {
    return tps_s(sums, spans, i) <= t;
  }
  return may_recompute(sums) && memory_bytes(sums, spans, i, level, true) <= bound_limit_bytes_ &&
         tps_s(sums, spans, i, true) <= t;
}

// What channels hold follows stage_memory(): a window of w micro-batches, and one task's
// messages that have just come. w is 2, and more where stages lie between the two ends, but
// never above M. Where the window is a single micro-batch, each channel may hold two.
std::int64_t StageCosts::tight_message_bytes(const StageSums& sums, std::int64_t n) const {
  const std::int64_t beside = 1;
  const std::int64_t two_in_any_case = m_ == 1 ? 2 * n : 0;
  const auto bytes = [&](const LinearBytes& tensors, std::int64_t count, std::int64_t tasks,
                         std::int64_t more) {
    return (tasks * n + more) * (tensors.per_sample + kIdBytes * count) +
           (tasks + more) * (tensors.constant + kEmptyBytes * count);
  };
  const std::int64_t least = std::min<std::int64_t>(2, m_) + beside;
  return std::min(bytes(sums.messages, sums.message_count, least, two_in_any_case) +
                      bytes(sums.messages_between, sums.message_count_between, 1, 0),
                  bytes(sums.messages, sums.message_count, m_ + beside, two_in_any_case));
}

// Whatever the neighbours' widths and levels. A task is cut into at most so many messages as
// there are devices, and each is padded; a short last micro-batch may leave two tasks'
// messages in channels of their own.
std::int64_t StageCosts::loose_message_bytes(const StageSums& sums, std::int64_t n,
                                             std::int64_t window) const {
  const std::int64_t tasks =
      std::clamp<std::int64_t>(window, std::min<std::int64_t>(2, m_), m_) + 3;
  std::int64_t more = 2 * n;
  if (m_ == 1) more += 2 * (b_ + devices_);
  const std::int64_t messages =
      tasks * std::min(n, divide_up(n, divide_up(b_, devices_)) + 2) + more + 2;
  const std::int64_t count = sums.message_count;
  return (tasks * n + more) * (sums.messages.per_sample + kIdBytes * count) +
         messages * (sums.messages.constant + kEmptyBytes * count);
}

std::int64_t StageCosts::memory_without_messages(const StageSums& sums, std::span<const Span> spans,
                                                 int i, std::int64_t level, bool recompute,
                                                 std::int64_t beside_bytes) const {
  const Width& width = widths_[at(i)];
  std::int64_t saved = sums.saved.of(width.samples);
  std::int64_t worst = 0;
  for (const Span span : spans) {
    saved += width.column->saved_bytes[at(span.end)] - width.column->saved_bytes[at(span.begin)];
    worst = std::max(worst, width.column->worst_bytes(span));
  }
  const std::int64_t turns = rules_.turns ? width.devices : 1;
  const std::int64_t tasks = divide_up(std::min(level, m_), turns);
  const std::int64_t inputs = sums.inputs.of(width.samples);
  const std::int64_t values = recompute ? tasks * inputs + (saved - inputs) : tasks * saved;
  const int holders = sums.tied_params > 0 ? devices_ : width.devices;
  const std::int64_t reduction =
      rules_.message_buffers
          ? reduction_bound_bytes(sums.gradient_bytes, sums.largest_gradient_bytes, holders)
          : 0;
  if (plans_streams(problem_)) {  // with each step, whatever is in flight
    return sums.static_bytes + versions_bytes(sums, tasks) + values + beside_bytes +
           std::max({worst, reduction, sums.step_bytes});
  }
  // Reductions begin within the last task's backward.
  const std::int64_t most = std::max(values, saved + reduction);
  return sums.static_bytes + std::max(worst + most + beside_bytes, sums.step_bytes);
}

// Of weights beside the newest, with so many tasks in flight. Vertical sync may keep more.
std::int64_t StageCosts::versions_bytes(const StageSums& sums, std::int64_t tasks) const {
  switch (problem_.options.weights) {
    case WeightPolicy::kSynchronous:
    case WeightPolicy::kNaive:
      return 0;
    case WeightPolicy::kStash:
    case WeightPolicy::kVerticalSync:
      return (tasks - 1) * sums.gradient_bytes;
    case WeightPolicy::k2bw:
      return sums.gradient_bytes;
  }
  return 0;
}

// Of gradients that wait, see op_task_memory(); of those that come in parts or from several
// readers, put together; of messages that are kept as inputs, what is not tensors.
std::int64_t StageCosts::beside_bytes(const StageSums& sums, std::span<const Span> spans,
                                      int i) const {
  const Width& width = widths_[at(i)];
  std::int64_t bytes = sums.out.of(width.samples) + 2 * sums.in.of(width.samples);
  for (const Span span : spans) {
    bytes += width.column->beside_bytes[at(span.end)] - width.column->beside_bytes[at(span.begin)];
  }
  return bytes;
}

std::int64_t StageCosts::memory_bytes(const StageSums& sums, std::span<const Span> spans, int i,
                                      std::int64_t level, bool recompute) const {
  // Levels never exceed the devices.
  if (rules_.message_buffers && rules_.loose_windows) {
    return memory_bound_bytes(sums, spans, i, level, devices_, recompute);
  }
  const std::int64_t bytes = memory_without_messages(sums, spans, i, level, recompute, 0);
  if (!rules_.message_buffers) return bytes;
  return bytes + tight_message_bytes(sums, widths_[at(i)].samples);
}

std::int64_t StageCosts::memory_bound_bytes(const StageSums& sums, std::span<const Span> spans,
                                            int i, std::int64_t level, std::int64_t window,
                                            bool recompute) const {
  const std::int64_t n = widths_[at(i)].samples;
  const std::int64_t kept_messages =
      std::min(level, m_) * sums.message_count * (kIdBytes * n + kEmptyBytes);
  return memory_without_messages(sums, spans, i, level, recompute, beside_bytes(sums, spans, i)) +
         kept_messages + loose_message_bytes(sums, n, window);
}

int StageCosts::least_width(const StageSums& sums, std::span<const Span> spans, std::int64_t level,
                            double t) const {
  for (int i = 0; i < (rules_.turns ? 1 : width_count()); ++i) {
    if (tps_s(sums, spans, i) <= t && fits(sums, spans, i, level, t)) return i;
  }
  return -1;
}

}  // namespace graphpipe

#include "cost/profile.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "cost/analytic.h"
#include "cost/kept_tensors.h"

namespace graphpipe {
namespace {

void check_entry(const ProfileEntry& entry, const std::string& at) {
  if (entry.points.empty() == entry.failure.empty()) {
    throw InputError(at, entry.points.empty() ? "F1: neither points nor a failure; give one of them"
                                              : "F1: both points and a failure; give one of them");
  }
  std::int64_t before = 0;
  for (std::size_t i = 0; i < entry.points.size(); ++i) {
    const std::int64_t samples = entry.points[i].samples;
    if (samples <= before) {
      throw InputError(fmt::format("{}/points/{}/samples", at, i),
                       fmt::format("F1: sample counts must be positive and ascend, found {} "
                                   "after {}",
                                   samples, before));
    }
    before = samples;
  }
}

void check_figure(double figure, const std::string& at) {
  if (!std::isfinite(figure) || figure < 0) {
    throw InputError(at,
                     fmt::format("F2: expected a number that is not negative, found {}", figure));
  }
}

void check_point(const ProfilePoint& point, const std::string& at) {
  if (!std::isfinite(point.forward_s) || point.forward_s <= 0) {
    throw InputError(at + "/forward_s", fmt::format("F2: expected a positive number of seconds, "
                                                    "found {}",
                                                    point.forward_s));
  }
  check_figure(point.backward_s, at + "/backward_s");
  const std::pair<const char*, std::int64_t> sizes[] = {{"saved_bytes", point.saved_bytes},
                                                        {"workspace_bytes", point.workspace_bytes}};
  for (const auto& [field, bytes] : sizes) {
    if (bytes < 0) {
      throw InputError(fmt::format("{}/{}", at, field),
                       fmt::format("F2: bytes must not be negative, found {}", bytes));
    }
  }
}

// The line through two points of a curve, at `samples`; flat where it would fall (noise).
double on_line(std::int64_t x0, double y0, std::int64_t x1, double y1, std::int64_t samples) {
  const double slope = std::max(0.0, (y1 - y0) / static_cast<double>(x1 - x0));
  return y0 + slope * static_cast<double>(samples - x0);
}

// The curve `value` of the points at `samples`. See profile.h.
template <typename Value>
double curve(const std::vector<ProfilePoint>& points, std::int64_t samples, Value value) {
  const auto proportional = [&](const ProfilePoint& p) {
    return value(p) * static_cast<double>(samples) / static_cast<double>(p.samples);
  };
  if (points.size() == 1) return proportional(points.front());
  const auto after = std::ranges::lower_bound(points, samples, {}, &ProfilePoint::samples);
  if (after != points.end() && after->samples == samples) return value(*after);
  if (after == points.begin()) {
    // Between proportion (no fixed part) and the first point (nothing but a fixed part).
    const ProfilePoint& first = points[0];
    const double line =
        on_line(first.samples, value(first), points[1].samples, value(points[1]), samples);
    return std::max(line, proportional(first));
  }
  if (after == points.end()) {
    const ProfilePoint& last = points.back();
    const ProfilePoint& before = points[points.size() - 2];
    return std::max(value(last),
                    on_line(before.samples, value(before), last.samples, value(last), samples));
  }
  const ProfilePoint& a = *(after - 1);
  const ProfilePoint& b = *after;
  const double share =
      static_cast<double>(samples - a.samples) / static_cast<double>(b.samples - a.samples);
  return value(a) + share * (value(b) - value(a));
}

std::int64_t bytes_on_curve(const std::vector<ProfilePoint>& points, std::int64_t samples,
                            std::int64_t ProfilePoint::*bytes) {
  const double y = curve(points, samples,
                         [bytes](const ProfilePoint& p) { return static_cast<double>(p.*bytes); });
  return static_cast<std::int64_t>(std::ceil(y));
}

class Fingerprint {
 public:
  void add(std::int64_t number) { hash_ = combine_hash(hash_, static_cast<std::uint64_t>(number)); }
  void add(double number) { hash_ = combine_hash(hash_, std::hash<double>{}(number)); }
  void add(std::string_view text) { hash_ = hash_bytes(text, hash_); }
  void add(const std::vector<std::int64_t>& numbers) {
    add(static_cast<std::int64_t>(numbers.size()));
    for (const std::int64_t number : numbers) add(number);
  }
  void add(const Tensor& tensor) {
    add(static_cast<std::int64_t>(tensor.dtype));
    add(static_cast<std::int64_t>(tensor.batched));
    add(tensor.shape);
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0;
};

// All that op_signature() depends on, without building its text.
std::uint64_t fingerprint(const Graph& graph, const Operator& op) {
  Fingerprint print;
  print.add(static_cast<std::int64_t>(op.kind));
  for (const auto& [name, value] : op.attributes) {
    print.add(name);
    print.add(static_cast<std::int64_t>(value.index()));
    if (const bool* flag = std::get_if<bool>(&value)) print.add(std::int64_t{*flag});
    if (const auto* integer = std::get_if<std::int64_t>(&value)) print.add(*integer);
    if (const double* number = std::get_if<double>(&value)) print.add(*number);
    if (const auto* text = std::get_if<std::string>(&value)) print.add(std::string_view(*text));
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) print.add(*list);
  }
  print.add(static_cast<std::int64_t>(op.inputs.size()));
  for (const TensorId in : op.inputs) print.add(graph.tensor(in));
  print.add(static_cast<std::int64_t>(op.params.size()));
  for (const ParamId param : op.params) {
    print.add(static_cast<std::int64_t>(graph.param(param).dtype));
    print.add(graph.param(param).shape);
  }
  for (const TensorId out : op.outputs) print.add(graph.tensor(out));
  return print.value();
}

}  // namespace

void validate(const Profile& profile, const std::string& where) {
  for (const auto& [signature, entry] : profile.entries) {
    check_entry(entry, fmt::format("{}: /entries/{}", where, signature));
  }
  for (const auto& [signature, entry] : profile.entries) {
    for (std::size_t i = 0; i < entry.points.size(); ++i) {
      check_point(entry.points[i], fmt::format("{}: /entries/{}/points/{}", where, signature, i));
    }
  }
  for (const auto& [signature, entry] : profile.entries) {
    if (std::isfinite(entry.calibration) && entry.calibration > 0) continue;
    throw InputError(fmt::format("{}: /entries/{}/calibration", where, signature),
                     fmt::format("F2: expected a positive factor, found {}", entry.calibration));
  }
  check_figure(profile.transfer_residual, where + ": /transfer_residual");
  check_figure(profile.action_overhead_s, where + ": /action_overhead_s");
  check_figure(profile.transfer_latency_s, where + ": /transfer_latency_s");
  check_figure(profile.transfer_bytes_per_s, where + ": /transfer_bytes_per_s");
  check_figure(profile.reduce_latency_s, where + ": /reduce_latency_s");
  check_figure(profile.reduce_bytes_per_s, where + ": /reduce_bytes_per_s");
  for (std::size_t i = 0; i < profile.steps.size(); ++i) {
    check_figure(profile.steps[i].param_s, fmt::format("{}: /steps/{}/param_s", where, i));
    check_figure(profile.steps[i].bytes_per_s, fmt::format("{}: /steps/{}/bytes_per_s", where, i));
  }
}

// Entries that were found, by fingerprint; nullptr where there is none to use.
struct ProfiledCosts::Lookup {
  std::shared_mutex mutex;
  std::unordered_map<std::uint64_t, const ProfileEntry*> known;
};

ProfiledCosts::ProfiledCosts(Profile profile, std::string file)
    : profile_(std::move(profile)), file_(std::move(file)), lookup_(std::make_unique<Lookup>()) {}

ProfiledCosts::~ProfiledCosts() = default;

const ProfileEntry* ProfiledCosts::entry_of(const Graph& graph, OpId op) const {
  const std::uint64_t key = fingerprint(graph, graph.op(op));
  {
    const std::shared_lock lock(lookup_->mutex);
    const auto at = lookup_->known.find(key);
    if (at != lookup_->known.end()) return at->second;
  }
  const auto found = profile_.entries.find(op_signature(graph, op));
  const bool usable = found != profile_.entries.end() && !found->second.points.empty();
  const ProfileEntry* entry = usable ? &found->second : nullptr;
  const std::unique_lock lock(lookup_->mutex);
  lookup_->known.emplace(key, entry);
  return entry;
}

OpCost ProfiledCosts::op_cost(const Graph& graph, OpId op, std::int64_t samples, int tensor_degree,
                              const DeviceType& device, Phase phase) const {
  GP_CHECK(tensor_degree == 1, "tensor degree {}", tensor_degree);
  if (samples <= 0) return {};
  const ProfileEntry* entry = entry_of(graph, op);
  if (entry == nullptr) return fallback_cost(graph, op, samples, device, phase);
  const std::vector<ProfilePoint>& points = entry->points;
  const bool forward = phase == Phase::kForward || phase == Phase::kRecompute;
  const auto seconds = forward ? &ProfilePoint::forward_s : &ProfilePoint::backward_s;
  OpCost cost;
  cost.seconds = curve(points, samples, [seconds](const ProfilePoint& p) { return p.*seconds; });
  cost.seconds *= entry->calibration;
  cost.seconds /= std::max(1.0, static_cast<double>(profile_.load) / profile_.cores);
  if (phase == Phase::kBackwardInput || phase == Phase::kBackwardWeight) cost.seconds /= 2;
  cost.workspace_bytes = bytes_on_curve(points, samples, &ProfilePoint::workspace_bytes);
  if (phase == Phase::kForward) {
    cost.saved_bytes = bytes_on_curve(points, samples, &ProfilePoint::saved_bytes);
  }
  cost.extrapolated = samples < points.front().samples || samples > points.back().samples;
  return cost;
}

OpCost ProfiledCosts::fallback_cost(const Graph& graph, OpId op, std::int64_t samples,
                                    const DeviceType& device, Phase phase) const {
  OpCost cost = AnalyticCosts().op_cost(graph, op, samples, 1, device, phase);
  cost.seconds *= median_ratio(graph, device);
  cost.extrapolated = true;
  return cost;
}

// Over the distinct operators of the graph that were measured, at their largest sample
// count; 1 where none was.
double ProfiledCosts::median_ratio(const Graph& graph, const DeviceType& device) const {
  const AnalyticCosts analytic;
  std::vector<std::pair<const ProfileEntry*, double>> seen;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const OpId op(i);
    const ProfileEntry* entry = entry_of(graph, op);
    if (entry == nullptr) continue;
    const std::int64_t samples = entry->points.back().samples;
    double measured_s = 0;
    double analytic_s = 0;
    for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
      measured_s += op_cost(graph, op, samples, 1, device, phase).seconds;
      analytic_s += analytic.op_cost(graph, op, samples, 1, device, phase).seconds;
    }
    if (analytic_s > 0) seen.emplace_back(entry, measured_s / analytic_s);
  }
  if (seen.empty()) return 1;
  std::ranges::sort(seen);
  const auto repeats = std::ranges::unique(seen, {}, [](const auto& item) { return item.first; });
  seen.erase(repeats.begin(), repeats.end());
  std::ranges::sort(seen, {}, [](const auto& item) { return item.second; });
  const std::size_t middle = seen.size() / 2;
  return seen.size() % 2 == 1 ? seen[middle].second
                              : (seen[middle - 1].second + seen[middle].second) / 2;
}

// What was measured are the runtime's operators.
bool ProfiledCosts::keeps_input(const Operator& op, std::size_t i, const DeviceType&) const {
  return runtime_keeps_input(op, i);
}

bool ProfiledCosts::keeps_output(const Operator& op, const DeviceType&) const {
  return runtime_keeps_output(op);
}

double ProfiledCosts::transfer_s(std::int64_t bytes, const Link& link) const {
  if (profile_.transfer_bytes_per_s <= 0) return CostModel::transfer_s(bytes, link);
  return CostModel::transfer_s(bytes, {profile_.transfer_bytes_per_s, profile_.transfer_latency_s});
}

double ProfiledCosts::step_s(std::int64_t params, std::int64_t bytes, int moments) const {
  const StepLine& line = profile_.steps.at(static_cast<std::size_t>(moments));
  if (line.bytes_per_s <= 0) return 0;
  return static_cast<double>(params) * line.param_s + static_cast<double>(bytes) / line.bytes_per_s;
}

double ProfiledCosts::reduce_s(std::int64_t bytes, int ranks, const Link& link) const {
  if (profile_.reduce_bytes_per_s > 0) {
    return CostModel::reduce_s(bytes, ranks,
                               {profile_.reduce_bytes_per_s, profile_.reduce_latency_s});
  }
  if (profile_.transfer_bytes_per_s <= 0) return CostModel::reduce_s(bytes, ranks, link);
  return CostModel::reduce_s(bytes, ranks,
                             {profile_.transfer_bytes_per_s, profile_.transfer_latency_s});
}

std::string ProfiledCosts::name() const { return "profile " + file_; }

}  // namespace graphpipe

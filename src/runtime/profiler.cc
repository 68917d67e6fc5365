#include "runtime/profiler.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "base/error.h"
#include "cost/profile_cache.h"
#include "graph/builder.h"
#include "job/fault.h"
#include "runtime/clock.h"
#include "runtime/optimizer.h"
#include "runtime/reducer.h"
#include "runtime/task_overhead.h"

namespace graphpipe {
namespace {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const auto at = line.find(": ");
      if (at != std::string::npos) return line.substr(at + 2);
    }
  }
  return "unknown";
}

// What each rank measured, a row a (signature, sample count), summed over the ranks.
class SharedPoints {
 public:
  explicit SharedPoints(std::size_t rows)
      : values_(at::zeros({static_cast<std::int64_t>(rows), kColumns}, at::kDouble)) {}

  void put(std::size_t i, const ProfilePoint& point) {
    const std::array<double, kColumns> values = {1, point.forward_s, point.backward_s,
                                                 static_cast<double>(point.saved_bytes),
                                                 static_cast<double>(point.workspace_bytes)};
    std::copy(values.begin(), values.end(), row(i));
  }
  void exchange(Transport& transport) { transport.all_reduce_sum(values_); }
  bool is_measured(std::size_t i) { return row(i)[0] > 0; }
  // The mean over the ranks that measured it.
  ProfilePoint take(std::size_t i, std::int64_t samples) {
    const double* values = row(i);
    ProfilePoint point;
    point.samples = samples;
    point.forward_s = values[1] / values[0];
    point.backward_s = values[2] / values[0];
    point.saved_bytes = static_cast<std::int64_t>(values[3] / values[0]);
    point.workspace_bytes = static_cast<std::int64_t>(values[4] / values[0]);
    return point;
  }

 private:
  static constexpr std::int64_t kColumns = 5;
  double* row(std::size_t i) {
    return values_.data_ptr<double>() + static_cast<std::int64_t>(i) * kColumns;
  }
  at::Tensor values_;
};

// The first line of what the library says; the rest is where in its source.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Takes turns on the cores as the ranks of a run do (see profiler.h).
double turns_of(const Profile& profile) {
  return std::max(1.0, static_cast<double>(profile.load) / profile.cores);
}

// A row a (signature, sample count): those of the cache, which rank 0 reads for all.
SharedPoints known_points(const std::vector<std::pair<std::string, OpId>>& ops,
                          const ProfileOptions& options, const Profile& machine,
                          Transport& transport) {
  const std::size_t counts = options.samples.size();
  SharedPoints known(ops.size() * counts);
  if (transport.rank() == 0 && !options.cache.empty() && !options.fresh) {
    const Profile cached = load_profile_cache(options.cache, machine);
    std::int64_t found = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const auto entry = cached.entries.find(ops[i].first);
      if (entry == cached.entries.end()) continue;
      for (const ProfilePoint& point : entry->second.points) {
        const auto at = std::ranges::lower_bound(options.samples, point.samples);
        if (at == options.samples.end() || *at != point.samples) continue;
        known.put(i * counts + static_cast<std::size_t>(at - options.samples.begin()), point);
        ++found;
      }
    }
    if (options.on_known) options.on_known(found, static_cast<std::int64_t>(ops.size() * counts));
  }
  known.exchange(transport);
  return known;
}

std::map<std::string, ProfileEntry> measure_entries(const Graph& graph,
                                                    const ProfileOptions& options,
                                                    const Profile& machine, Transport& transport,
                                                    const PhaseProgress& progress) {
  const std::map<std::string, OpId> chosen = representatives(graph);
  const std::vector<std::pair<std::string, OpId>> ops(chosen.begin(), chosen.end());
  const std::size_t counts = options.samples.size();
  SharedPoints known = known_points(ops, options, machine, transport);
  SharedPoints points(ops.size() * counts);
  std::vector<std::string> failures(ops.size());
  transport.barrier();
  // Each rank begins elsewhere, so that different operators are busy at the same time, as in
  // a pipeline.
  const std::size_t first = ops.size() * static_cast<std::size_t>(transport.rank()) /
                            static_cast<std::size_t>(transport.size());
  double all = 0;
  double behind = 0;
  for (std::size_t i = 0; i < ops.size() * counts; ++i) all += known.is_measured(i) ? 0 : 1;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::size_t at = (first + i) % ops.size();
    for (std::size_t j = 0; j < counts; ++j) {
      if (known.is_measured(at * counts + j)) continue;
      if (progress) progress(ops[at].first, behind++ / all);
      try {
        ProfilePoint point =
            measure_op(graph, ops[at].second, options.samples[j], options.repeats, options.least_s);
        point.forward_s *= turns_of(machine);
        point.backward_s *= turns_of(machine);
        points.put(at * counts + j, point);
      } catch (const std::exception& error) {
        failures[at] = fmt::format("{} samples: {}", options.samples[j], first_line(error.what()));
      }
    }
  }
  points.exchange(transport);

  std::map<std::string, ProfileEntry> entries;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    ProfileEntry& entry = entries[ops[i].first];
    for (std::size_t j = 0; j < counts; ++j) {
      const std::size_t row = i * counts + j;
      SharedPoints& from = known.is_measured(row) ? known : points;
      if (from.is_measured(row)) entry.points.push_back(from.take(row, options.samples[j]));
    }
    if (entry.points.empty()) {
      entry.failure = failures[i].empty() ? "failed on every rank" : failures[i];
    }
  }
  return entries;
}

// All of a message, as the task does that takes it: its memory comes over line by line.
void read_all(const at::Tensor& message) {
  constexpr std::int64_t kCacheLine = 64;
  const auto* data = message.data_ptr<std::uint8_t>();
  volatile std::uint8_t sum = 0;  // so that nobody leaves the reading out
  for (std::int64_t i = 0; i < message.numel(); i += kCacheLine) sum = sum + data[i];
}

// One message there and one back, `rounds` times; the least one-way time. What is sent is new
// each time, as a task's results are.
double ping_pong_s(Transport& transport, std::int64_t bytes, int rounds) {
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  const Transport::Pack pack = [&](std::byte* message) {
    std::memcpy(message, out.data(), out.size());
  };
  const int peer = 1 - transport.rank();
  double least_s = 1e30;
  for (int i = 0; i < rounds; ++i) {
    std::ranges::fill(out, static_cast<std::byte>(i));
    auto receive = transport.post_receive(bytes, peer, i);
    const double start_s = monotonic_s();
    if (transport.rank() == 1) read_all(receive->wait());
    transport.start_send(bytes, peer, i, pack)->wait();
    if (transport.rank() == 0) read_all(receive->wait());
    least_s = std::min(least_s, (monotonic_s() - start_s) / 2);
  }
  return least_s;
}

// One parameter of so many elements, which is all that a reducer asks of a graph.
Graph one_parameter(std::int64_t elements) {
  GraphBuilder builder("one parameter");
  const TensorId x = builder.input("x", {elements});
  builder.loss(builder.mse_loss("loss", builder.add_parameter("p", x, {}), x));
  return std::move(builder).build();
}

// Of sums over two ranks, `rounds` times; the least time.
double reduction_s(Transport& transport, std::int64_t bytes, int rounds) {
  const std::int64_t elements = bytes / static_cast<std::int64_t>(sizeof(float));
  const Graph graph = one_parameter(elements);
  const std::vector<Bucket> buckets = {
      {.params = {ParamId(0)}, .ranks = {RankId(0), RankId(1)}, .bytes = bytes}};
  const std::vector<at::Tensor> params = {at::zeros({elements})};
  const TagSpace tags(1);
  Reducer reducer(graph, buckets, 0, params, transport, tags, 0);
  double least_s = 1e30;
  for (int i = 0; i < rounds; ++i) {
    params[0].mutable_grad() = at::ones({elements});
    const double start_s = monotonic_s();
    reducer.start(0, i);
    reducer.wait(0);
    least_s = std::min(least_s, monotonic_s() - start_s);
  }
  return least_s;
}

// Seconds of a step over `count` parameters of `elements`, the median of some.
double optimizer_step_s(OptimizerKind kind, int count, std::int64_t elements) {
  std::vector<at::Tensor> params;
  for (int i = 0; i < count; ++i) {
    params.push_back(at::zeros({elements}).set_requires_grad(true));
    params.back().mutable_grad() = at::ones({elements});
  }
  TrainOptions options;
  options.optimizer = kind;
  if (kind == OptimizerKind::kSgdMomentum) options.momentum = 0.9;
  Optimizer optimizer(std::move(params), options);
  constexpr int kSteps = 7;
  std::vector<double> seconds;
  for (int i = 0; i <= kSteps; ++i) {
    const double start_s = thread_cpu_s();
    optimizer.step(1e-3);
    if (i > 0) seconds.push_back(thread_cpu_s() - start_s);  // the first makes what it keeps
  }
  return median(std::move(seconds));
}

// By many small parameters and a large one.
StepLine measure_step(OptimizerKind kind) {
  constexpr int kSmall = 64;
  constexpr std::int64_t kSmallElements = 64;
  constexpr std::int64_t kLargeElements = 4 << 20;
  StepLine line;
  line.param_s = optimizer_step_s(kind, kSmall, kSmallElements) / kSmall;
  const double large_s = std::max(optimizer_step_s(kind, 1, kLargeElements) - line.param_s, 1e-9);
  line.bytes_per_s = static_cast<double>(kLargeElements * sizeof(float)) / large_s;
  return line;
}

// The mean over the ranks, which step at the same time.
std::array<StepLine, 3> measure_steps(Transport& transport) {
  constexpr std::array kKinds = {OptimizerKind::kSgd, OptimizerKind::kSgdMomentum,
                                 OptimizerKind::kAdam};  // by their moments
  at::Tensor sums = at::zeros({static_cast<std::int64_t>(2 * kKinds.size())}, at::kDouble);
  double* values = sums.data_ptr<double>();
  transport.barrier();
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    const StepLine line = measure_step(kKinds[i]);
    values[2 * i] = line.param_s;
    values[2 * i + 1] = 1 / line.bytes_per_s;
  }
  transport.all_reduce_sum(sums);
  std::array<StepLine, 3> lines;
  const auto ranks = static_cast<double>(transport.size());
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    lines[i] = {values[2 * i] / ranks, ranks / values[2 * i + 1]};
  }
  return lines;
}

}  // namespace

std::string library_name() {
  std::string name = fmt::format("libtorch {}", TORCH_VERSION);
  // There where the matrix library behind it is OpenBLAS.
  using ConfigFunction = char* (*)();
  if (void* symbol = dlsym(RTLD_DEFAULT, "openblas_get_config")) {
    name += fmt::format(", {}", reinterpret_cast<ConfigFunction>(symbol)());
  }
  return name;
}

std::map<std::string, OpId> representatives(const Graph& graph) {
  const std::vector<bool> needs = needs_gradient(graph);
  const auto gradients = [&](OpId id) {
    const Operator& op = graph.op(id);
    const auto count = [&](const std::vector<TensorId>& tensors) {
      return std::count_if(tensors.begin(), tensors.end(),
                           [&](TensorId tensor) { return needs[tensor.index()]; });
    };
    return count(op.inputs) + count(op.outputs);
  };
  std::map<std::string, OpId> chosen;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const OpId id(i);
    const auto [found, added] = chosen.try_emplace(op_signature(graph, id), id);
    if (!added && gradients(id) > gradients(found->second)) found->second = id;
  }
  return chosen;
}

TransferLine fit_transfer_line(const std::vector<TransferTime>& times) {
  // Minimises sum(((a + b x - t) / t)^2).
  double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  for (const TransferTime& time : times) {
    const double weight = 1 / (time.seconds * time.seconds);
    w += weight;
    wx += weight * time.bytes;
    wxx += weight * time.bytes * time.bytes;
    wt += weight * time.seconds;
    wxt += weight * time.bytes * time.seconds;
  }
  const double determinant = w * wxx - wx * wx;
  if (determinant <= 0) return {};
  const double slope = (w * wxt - wx * wt) / determinant;
  TransferLine line = slope <= 0 ? TransferLine{wt / w, 0}
                                 : TransferLine{std::max(0.0, (wt - slope * wx) / w), 1 / slope};
  double squares = 0;
  for (const TransferTime& time : times) {
    const double fit = line.latency_s + (slope <= 0 ? 0 : time.bytes * slope);
    squares += (fit - time.seconds) * (fit - time.seconds) / (time.seconds * time.seconds);
  }
  line.residual = std::sqrt(squares / static_cast<double>(times.size()));
  return line;
}

TransferLine measure_transfers(Transport& transport, int repeats) {
  constexpr std::array<std::int64_t, 6> kBytes = {256, 4096, 65536, 1 << 20, 4 << 20, 16 << 20};
  if (transport.size() < 2 || transport.rank() > 1) return {};
  std::vector<TransferTime> times;
  for (const std::int64_t bytes : kBytes) {
    times.push_back({static_cast<double>(bytes), ping_pong_s(transport, bytes, 2 + 2 * repeats)});
  }
  return fit_transfer_line(times);
}

TransferLine measure_reductions(Transport& transport, int repeats) {
  constexpr std::array<std::int64_t, 4> kBytes = {4096, 256 << 10, 4 << 20, 24 << 20};
  if (transport.size() < 2 || transport.rank() > 1) return {};
  std::vector<TransferTime> times;
  for (const std::int64_t bytes : kBytes) {
    times.push_back({static_cast<double>(bytes), reduction_s(transport, bytes, 2 + repeats)});
  }
  TransferLine line = fit_transfer_line(times);
  line.latency_s /= 2;  // of a ring of two there and back (CostModel::reduce_s)
  return line;
}

Profile measure_profile(const Graph& graph, const ProfileOptions& options, Transport& transport,
                        const PhaseProgress& progress) {
  Profile profile;
  profile.model = options.model;
  profile.graph_hash = graph_hash(graph);
  profile.device = "cpu: " + cpu_name();
  profile.library = library_name();
  profile.load = transport.size();
  profile.cores = static_cast<int>(std::thread::hardware_concurrency());
  profile.entries = measure_entries(graph, options, profile, transport, progress);
  if (transport.rank() == 0 && !options.cache.empty()) {
    store_profile_cache(options.cache, profile);
  }
  if (progress) progress("messages between ranks", 1);
  const TransferLine line = measure_transfers(transport, options.repeats);
  const TransferLine sums = measure_reductions(transport, options.repeats);
  at::Tensor shared = at::zeros({5}, at::kDouble);
  double* values = shared.data_ptr<double>();
  if (transport.rank() == 0) {
    values[0] = line.latency_s;
    values[1] = line.bytes_per_s;
    values[2] = line.residual;
    values[3] = sums.latency_s;
    values[4] = sums.bytes_per_s;
  }
  transport.all_reduce_sum(shared);
  profile.transfer_latency_s = values[0];
  profile.transfer_bytes_per_s = values[1];
  profile.transfer_residual = values[2];
  profile.reduce_latency_s = values[3];
  profile.reduce_bytes_per_s = values[4];
  profile.steps = measure_steps(transport);
  if (progress) progress("the executor", 1);
  profile.action_overhead_s = measure_task_overhead_s(transport);
  return profile;
}

}  // namespace graphpipe

#include "runtime/profiler.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "base/error.h"
#include "job/fault.h"
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

std::string library_name() {
  std::string name = fmt::format("libtorch {}", TORCH_VERSION);
  // There where the matrix library behind it is OpenBLAS.
  using ConfigFunction = char* (*)();
  if (void* symbol = dlsym(RTLD_DEFAULT, "openblas_get_config")) {
    name += fmt::format(", {}", reinterpret_cast<ConfigFunction>(symbol)());
  }
  return name;
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

std::map<std::string, ProfileEntry> measure_entries(
    const Graph& graph, const ProfileOptions& options, Transport& transport,
    const std::function<void(const std::string&)>& progress) {
  const std::map<std::string, OpId> chosen = representatives(graph);
  const std::vector<std::pair<std::string, OpId>> ops(chosen.begin(), chosen.end());
  const std::size_t counts = options.samples.size();
  SharedPoints points(ops.size() * counts);
  std::vector<std::string> failures(ops.size());
  transport.barrier();
  // Each rank begins elsewhere, so that different operators are busy at the same time, as in
  // a pipeline.
  const std::size_t first = ops.size() * static_cast<std::size_t>(transport.rank()) /
                            static_cast<std::size_t>(transport.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::size_t at = (first + i) % ops.size();
    progress(ops[at].first);
    for (std::size_t j = 0; j < counts; ++j) {
      try {
        points.put(at * counts + j, measure_op(graph, ops[at].second, options.samples[j],
                                               options.repeats, options.least_s));
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
      if (points.is_measured(row)) entry.points.push_back(points.take(row, options.samples[j]));
    }
    if (entry.points.empty()) {
      entry.failure = failures[i].empty() ? "failed on every rank" : failures[i];
    }
  }
  return entries;
}

void scale_to_wall_time(Profile& profile) {
  const double turns = std::max(1.0, static_cast<double>(profile.load) / profile.cores);
  for (auto& [signature, entry] : profile.entries) {
    for (ProfilePoint& point : entry.points) {
      point.forward_s *= turns;
      point.backward_s *= turns;
    }
  }
}

// One message there and one back, `rounds` times; the least one-way time.
double ping_pong_s(Transport& transport, std::int64_t bytes, int rounds) {
  const std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  const Transport::Pack pack = [&](std::byte* message) {
    std::memcpy(message, out.data(), out.size());
  };
  const int peer = 1 - transport.rank();
  double least_s = 1e30;
  for (int i = 0; i < rounds; ++i) {
    auto receive = transport.post_receive(bytes, peer, i);
    const double start_s = monotonic_s();
    if (transport.rank() == 1) receive->wait();
    auto send = transport.start_send(bytes, peer, i, pack);
    send->wait();
    if (transport.rank() == 0) receive->wait();
    least_s = std::min(least_s, (monotonic_s() - start_s) / 2);
  }
  return least_s;
}

}  // namespace

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
  if (slope <= 0) return {wt / w, 0};
  return {std::max(0.0, (wt - slope * wx) / w), 1 / slope};
}

TransferLine measure_transfers(Transport& transport, int repeats) {
  constexpr std::array<std::int64_t, 5> kBytes = {256, 4096, 65536, 1 << 20, 4 << 20};
  if (transport.size() < 2 || transport.rank() > 1) return {};
  std::vector<TransferTime> times;
  for (const std::int64_t bytes : kBytes) {
    times.push_back({static_cast<double>(bytes), ping_pong_s(transport, bytes, 2 + 2 * repeats)});
  }
  return fit_transfer_line(times);
}

Profile measure_profile(const Graph& graph, const ProfileOptions& options, Transport& transport,
                        const std::function<void(const std::string& signature)>& progress) {
  Profile profile;
  profile.model = options.model;
  profile.graph_hash = graph_hash(graph);
  profile.device = "cpu: " + cpu_name();
  profile.library = library_name();
  profile.load = transport.size();
  profile.cores = static_cast<int>(std::thread::hardware_concurrency());
  profile.entries = measure_entries(graph, options, transport, progress);
  scale_to_wall_time(profile);
  progress("messages between ranks");
  const TransferLine line = measure_transfers(transport, options.repeats);
  at::Tensor shared = at::zeros({2}, at::kDouble);
  double* values = shared.data_ptr<double>();
  if (transport.rank() == 0) {
    values[0] = line.latency_s;
    values[1] = line.bytes_per_s;
  }
  transport.all_reduce_sum(shared);
  profile.transfer_latency_s = values[0];
  profile.transfer_bytes_per_s = values[1];
  progress("the executor");
  profile.action_overhead_s = measure_task_overhead_s(transport);
  return profile;
}

}  // namespace graphpipe

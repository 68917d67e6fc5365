#include "equivalence/harness.h"

#include <ATen/Parallel.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/sub.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <mutex>

#include "equivalence/partitions.h"
#include "runtime/reference.h"
#include "runtime/thread_ranks.h"

namespace graphpipe {
namespace {

constexpr double kTimeoutS = 20;

std::vector<double> numbers(const Outcome& outcome) {
  std::vector<double> result;
  for (const IterationResult& iteration : outcome.iterations) {
    result.push_back(iteration.loss);
    result.push_back(iteration.grad_norm);
  }
  return result;
}

// Applies `fault(name, expected, got)` to all tensors, and says which are missing.
template <typename Fault>
std::string compare_tensors(const char* kind, const std::map<std::string, at::Tensor>& expected,
                            const std::map<std::string, at::Tensor>& got, Fault fault) {
  if (expected.size() != got.size()) {
    return fmt::format("{} {}s, expected {}", got.size(), kind, expected.size());
  }
  for (const auto& [name, tensor] : expected) {
    const auto at = got.find(name);
    if (at == got.end()) return fmt::format("no {} of {}", kind, name);
    const std::string text = fault(tensor, at->second);
    if (!text.empty()) return fmt::format("{} of {}: {}", kind, name, text);
  }
  return "";
}

template <typename NumberFault, typename TensorFault>
std::string compare(const Outcome& expected, const Outcome& got, NumberFault number_fault,
                    TensorFault tensor_fault) {
  const std::vector<double> a = numbers(expected);
  const std::vector<double> b = numbers(got);
  if (a.size() != b.size()) return "another number of iterations";
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!number_fault(a[i], b[i])) continue;
    return fmt::format("{} of iteration {}: {:.17g}, expected {:.17g}",
                       i % 2 == 0 ? "loss" : "gradient norm", i / 2, b[i], a[i]);
  }
  std::string text = compare_tensors("gradient", expected.gradients, got.gradients, tensor_fault);
  if (!text.empty()) return text;
  return compare_tensors("parameter", expected.parameters, got.parameters, tensor_fault);
}

}  // namespace

void run_ranks(const Plan& plan, const Graph& graph, const Dataset& dataset,
               const RankTrainerOptions& options, const RankBody& body) {
  const int ranks = devices_used(plan);
  const Cluster cluster = test_cluster(ranks);
  // Connecting takes longer than training something this small, so connections are used
  // again, except after a failure.
  static std::map<int, std::vector<std::unique_ptr<Transport>>> connected;
  std::vector<std::unique_ptr<Transport>> transports = std::move(connected[ranks]);
  connected.erase(ranks);
  if (transports.empty()) transports = connect_threads(ranks, kTimeoutS);
  run_thread_ranks(transports, [&](Transport& transport) {
    RankTrainer trainer(plan, graph, cluster, dataset, transport, options);
    body(trainer, transport.rank());
  });
  connected[ranks] = std::move(transports);
}

Outcome train_by_plan(const Plan& plan, const Graph& graph, const Dataset& dataset,
                      const Lesson& lesson) {
  RankTrainerOptions options;
  options.train = lesson.options;
  options.keep_gradients = true;
  Outcome outcome;
  std::mutex mutex;
  run_ranks(plan, graph, dataset, options, [&](RankTrainer& trainer, int rank) {
    std::vector<IterationResult> iterations;
    for (std::size_t i = 0; i < lesson.batches.size(); ++i) {
      iterations.push_back(
          trainer.train(lesson.batches[i], static_cast<std::int64_t>(i), /*metrics=*/true));
    }
    const auto metrics = trainer.evaluate(lesson.evaluated);
    const std::lock_guard lock(mutex);
    outcome.gradients.merge(trainer.gradients());
    outcome.parameters.merge(trainer.parameters());
    if (rank != 0) return;
    outcome.iterations = std::move(iterations);
    outcome.metrics = metrics;
  });
  return outcome;
}

Outcome train_on_one_device(const Graph& graph, const Dataset& dataset, const Lesson& lesson,
                            std::int64_t micro_batch) {
  at::set_num_threads(1);
  ReferenceTrainer trainer(graph, dataset, lesson.options);
  Outcome outcome;
  for (std::size_t i = 0; i < lesson.batches.size(); ++i) {
    outcome.iterations.push_back(
        trainer.train(lesson.batches[i], static_cast<std::int64_t>(i), micro_batch));
  }
  outcome.gradients = trainer.gradients();
  outcome.parameters = trainer.parameters();
  outcome.metrics = trainer.evaluate(lesson.evaluated, micro_batch);
  return outcome;
}

std::string bitwise_difference(const Outcome& expected, const Outcome& got) {
  return compare(
      expected, got, [](double a, double b) { return a != b; },
      [](const at::Tensor& a, const at::Tensor& b) {
        return a.equal(b) ? std::string()
                          : fmt::format("differs by at most {}",
                                        at::sub(a, b).abs().max().to(at::kDouble).item<double>());
      });
}

std::string difference_beyond(double tolerance, const Outcome& expected, const Outcome& got) {
  return compare(
      expected, got,
      [=](double a, double b) { return !(std::abs(a - b) <= tolerance * std::abs(a)); },
      [=](const at::Tensor& a, const at::Tensor& b) {
        const double size = a.to(at::kDouble).norm().item<double>();
        const double apart = at::sub(a.to(at::kDouble), b.to(at::kDouble)).norm().item<double>();
        return apart <= tolerance * size
                   ? std::string()
                   : fmt::format("differs by {:.3g}, of a norm of {:.3g}", apart, size);
      });
}

}  // namespace graphpipe

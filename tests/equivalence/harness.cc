#include "equivalence/harness.h"

#include <ATen/Parallel.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/sub.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <memory>
#include <mutex>

#include "equivalence/partitions.h"
#include "runtime/counting_allocator.h"
#include "runtime/reference.h"
#include "runtime/thread_ranks.h"

namespace graphpipe {
namespace {

constexpr double kTimeoutS = 20;

// Calls `number(name, expected, got)` and `tensor(name, expected, got)` for all that two
// outcomes have, in a fixed order; a tensor that one of them lacks is undefined.
template <typename Number, typename TensorPair>
void visit_pairs(const Outcome& expected, const Outcome& got, Number number, TensorPair tensor) {
  for (std::size_t i = 0; i < expected.iterations.size(); ++i) {
    const IterationResult& a = expected.iterations[i];
    const IterationResult& b = got.iterations.at(i);
    number(fmt::format("loss of iteration {}", i), a.loss, b.loss);
    number(fmt::format("gradient norm of iteration {}", i), a.grad_norm, b.grad_norm);
  }
  const auto visit = [&](const char* kind, const std::map<std::string, at::Tensor>& a,
                         const std::map<std::string, at::Tensor>& b) {
    std::map<std::string, std::pair<at::Tensor, at::Tensor>> pairs;
    for (const auto& [name, value] : a) pairs[name].first = value;
    for (const auto& [name, value] : b) pairs[name].second = value;
    for (const auto& [name, pair] : pairs) {
      tensor(fmt::format("{} of {}", kind, name), pair.first, pair.second);
    }
  };
  visit("gradient", expected.gradients, got.gradients);
  visit("parameter", expected.parameters, got.parameters);
}

// Every holder of a parameter must have the same bits.
void add_held(Outcome& outcome, std::map<std::string, at::Tensor>& all, const char* kind,
              const std::map<std::string, at::Tensor>& of_rank) {
  for (const auto& [name, value] : of_rank) {
    const auto [at, is_new] = all.emplace(name, value);
    if (is_new || at->second.equal(value)) continue;
    outcome.holders_differ = fmt::format("{} of {} differs between ranks", kind, name);
  }
}

double relative_to(double size, double apart) {
  if (apart == 0) return 0;
  return size > 0 ? apart / size : std::numeric_limits<double>::infinity();
}

}  // namespace

StepPart part_of(const Lesson& lesson, std::size_t i) {
  return step_part(
      lesson.options.accumulate, static_cast<std::int64_t>(i),
      static_cast<std::int64_t>(lesson.batches.size()), [&](std::int64_t at) {
        return static_cast<std::int64_t>(lesson.batches[static_cast<std::size_t>(at)].size());
      });
}

void run_ranks(const Plan& plan, const Graph& graph, const Dataset& dataset,
               const RankTrainerOptions& options, const RankBody& body, TransportKind kind) {
  const int ranks = devices_used(plan);
  const Cluster cluster = test_cluster(ranks);
  // Connecting takes longer than training something this small, so connections are used
  // again, except after a failure.
  static std::map<std::pair<int, TransportKind>, std::vector<std::unique_ptr<Transport>>> connected;
  std::vector<std::unique_ptr<Transport>> transports = std::move(connected[{ranks, kind}]);
  connected.erase({ranks, kind});
  if (transports.empty()) transports = connect_threads(ranks, kTimeoutS, kind);
  run_thread_ranks(transports, [&](Transport& transport) {
    RankTrainer trainer(plan, graph, cluster, dataset, transport, options);
    body(trainer, transport.rank());
  });
  connected[{ranks, kind}] = std::move(transports);
}

Outcome train_by_plan(const Plan& plan, const Graph& graph, const Dataset& dataset,
                      const Lesson& lesson) {
  RankTrainerOptions options;
  options.train = lesson.options;
  options.keep_gradients = true;
  Outcome outcome;
  outcome.peak_bytes.resize(static_cast<std::size_t>(devices_used(plan)));
  install_counting_allocator();
  std::mutex mutex;
  run_ranks(plan, graph, dataset, options, [&](RankTrainer& trainer, int rank) {
    std::vector<IterationResult> iterations;
    std::int64_t& peak_bytes = outcome.peak_bytes[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < lesson.batches.size(); ++i) {
      if (lesson.evaluates_before_each) trainer.evaluate(lesson.evaluated);
      iterations.push_back(trainer.train(lesson.batches[i], static_cast<std::int64_t>(i),
                                         /*metrics=*/true, part_of(lesson, i)));
      peak_bytes = std::max(peak_bytes, trainer.measurement().peak_bytes);
    }
    const auto metrics = trainer.evaluate(lesson.evaluated);
    const std::lock_guard lock(mutex);
    add_held(outcome, outcome.gradients, "gradient", trainer.gradients());
    add_held(outcome, outcome.parameters, "parameter", trainer.parameters());
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
    outcome.iterations.push_back(trainer.train(lesson.batches[i], static_cast<std::int64_t>(i),
                                               micro_batch, part_of(lesson, i)));
  }
  outcome.gradients = trainer.gradients();
  outcome.parameters = trainer.parameters();
  outcome.metrics = trainer.evaluate(lesson.evaluated, micro_batch);
  return outcome;
}

std::string bitwise_difference(const Outcome& expected, const Outcome& got) {
  std::string first;
  visit_pairs(
      expected, got,
      [&](const std::string& name, double a, double b) {
        if (a != b && first.empty()) first = fmt::format("{}: {:.17g}, not {:.17g}", name, b, a);
      },
      [&](const std::string& name, const at::Tensor& a, const at::Tensor& b) {
        if (!first.empty()) return;
        if (!a.defined() || !b.defined()) {
          first = fmt::format("{}: on one side only", name);
        } else if (!a.equal(b)) {
          first = fmt::format("{}: differs by at most {}", name,
                              at::sub(a, b).abs().max().to(at::kDouble).item<double>());
        }
      });
  return first;
}

Difference largest_difference(const Outcome& expected, const Outcome& got) {
  Difference largest;
  const auto keep = [&](const std::string& name, double relative) {
    if (relative <= largest.relative) return;
    largest = {relative, name};
  };
  visit_pairs(
      expected, got,
      [&](const std::string& name, double a, double b) {
        keep(name, relative_to(std::abs(a), std::abs(a - b)));
      },
      [&](const std::string& name, const at::Tensor& a, const at::Tensor& b) {
        if (!a.defined() || !b.defined()) {
          keep(name, std::numeric_limits<double>::infinity());
          return;
        }
        const at::Tensor exact = a.to(at::kDouble);
        keep(name, relative_to(exact.norm().item<double>(),
                               at::sub(exact, b.to(at::kDouble)).norm().item<double>()));
      });
  return largest;
}

}  // namespace graphpipe

// A few of the random models by random plans on worker processes, as `graphpipe train`
// starts them. GP_RANDOM_PROCESSES=50 runs more.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "cost/analytic.h"
#include "data/dataset.h"
#include "data/index_stream.h"
#include "equivalence/partitions.h"
#include "equivalence/random_cases.h"
#include "job/launcher.h"
#include "job/test_folder.h"
#include "runtime/reference.h"
#include "schedule/verify.h"

namespace graphpipe {
namespace {

constexpr int kCases = 8;
constexpr std::uint64_t kFirstSeed = 10'001;  // others than the threads' tests
constexpr std::int64_t kIterations = 4;
constexpr double kTolerance = 1e-9;

int case_count() {
  const char* text = std::getenv("GP_RANDOM_PROCESSES");
  return text == nullptr ? kCases : std::atoi(text);
}

TrainOptions options_of(const RandomCase& c) {
  TrainOptions options = lesson_of(c, 1).options;
  options.data = "synthetic";
  options.iterations = kIterations;
  options.accumulate = 1;  // a line each
  options.timeout_s = 20;
  return options;
}

// A number of an object on one line; nan where it is not there.
double number_in(const std::string& line, const std::string& field) {
  const auto at = line.find("\"" + field + "\":");
  return at == std::string::npos ? std::nan("") : std::atof(line.c_str() + at + field.size() + 3);
}

// What rank 0 reports of the iterations.
std::vector<IterationResult> train_on_processes(const RandomCase& c, const Graph& graph,
                                                const Plan& plan) {
  const TestFolder folder;
  Job job;
  job.kind = "train";
  job.folder = folder.path();
  job.train = options_of(c);
  write_job(job);
  const int ranks = devices_used(plan);
  write_job_inputs(folder.path(), {plan, graph, test_cluster(ranks)});
  std::vector<IterationResult> results;
  const LaunchResult result = run_workers(GP_WORKER, job, ranks, [&](const std::string& line) {
    if (std::isnan(number_in(line, "iteration"))) return;
    results.push_back({number_in(line, "loss"), number_in(line, "grad_norm")});
  });
  EXPECT_EQ(result.exit_code, 0) << result.first_cause;
  return results;
}

void expect_as_on_one_device(const RandomCase& c, const Graph& graph, const Plan& plan) {
  const std::vector<IterationResult> got = train_on_processes(c, graph, plan);
  const TrainOptions options = options_of(c);
  const auto dataset = load_dataset("synthetic", graph, options.seed);
  const Split split = split_dataset(dataset->samples(), options.seed);
  const IndexStream stream(split.train, plan.mini_batch, options.seed);
  ReferenceTrainer trainer(graph, *dataset, options);
  ASSERT_EQ(got.size(), static_cast<std::size_t>(kIterations));
  for (std::int64_t i = 0; i < kIterations; ++i) {
    const IterationResult expected = trainer.train(stream.mini_batch(i), i, plan.mini_batch);
    const IterationResult& line = got[static_cast<std::size_t>(i)];
    EXPECT_NEAR(line.loss, expected.loss, kTolerance * std::abs(expected.loss)) << i;
    EXPECT_NEAR(line.grad_norm, expected.grad_norm, kTolerance * expected.grad_norm) << i;
  }
}

TEST(RandomPlansOnProcesses, TrainAsOneDeviceDoes) {
  int trained = 0;
  for (std::uint64_t seed = kFirstSeed; trained < case_count(); ++seed) {
    const RandomCase c = random_case(seed);
    const Graph graph = graph_of(c);
    const Plan plan = plan_of(c, graph);
    const Cluster cluster = test_cluster(devices_used(plan));
    if (!verify_plan(plan, graph, cluster, AnalyticCosts()).ok()) continue;
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, to_text(c)));
    expect_as_on_one_device(c, graph, plan);
    ++trained;
  }
}

}  // namespace
}  // namespace graphpipe

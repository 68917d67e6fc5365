#include "runtime/train_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "cluster/presets.h"
#include "cost/analytic.h"
#include "graph/builder.h"
#include "job/test_folder.h"

namespace graphpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr std::int64_t kAllSamples = 100;  // 80 train, 10 validation, 10 test

// The number under a key of a line; the first, where there are several.
double number_in(const std::string& line, const std::string& key) {
  const std::string quoted = "\"" + key + "\":";
  const auto at = line.find(quoted);
  EXPECT_NE(at, std::string::npos) << key << " in " << line;
  return at == std::string::npos ? 0 : std::strtod(line.c_str() + at + quoted.size(), nullptr);
}

bool is_iteration(const std::string& line) { return line.starts_with("{\"iteration\":"); }
bool is_evaluation(const std::string& line) { return line.starts_with("{\"evaluation\":"); }

// Two stages on two ranks (threads); noise for targets, so that validation soon stops
// improving.
class TwoRanks {
 public:
  TwoRanks() {
    GraphBuilder g("chain");
    const TensorId h = g.relu("relu", g.linear("fc0", g.input("x", {8}), 32));
    const TensorId loss = g.mse_loss("loss", g.linear("fc1", h, 2), g.input("target", {2}));
    g.loss(loss);
    g.metric("rmse", "root_mean", loss);
    graph_ = std::move(g).build();
    plan_.graph_hash = graph_hash(graph_);
    plan_.mini_batch = 12;  // the last of an epoch's 7 has 8
    plan_.stages.resize(2);
    plan_.stages[0].ops = {OpId(0), OpId(1)};
    plan_.stages[1].ops = {OpId(2), OpId(3)};
    for (std::size_t s = 0; s < 2; ++s) {
      plan_.stages[s].devices = {DeviceId(s)};
      plan_.stages[s].micro_batch = 4;
    }
    canonicalise(plan_, graph_);
    const std::vector<std::int64_t> in_flight = least_in_flight(plan_);
    for (std::size_t s = 0; s < 2; ++s) plan_.stages[s].in_flight_samples = in_flight[s];
    dataset_ = synthetic_dataset(graph_, kAllSamples, 3);
    options.learning_rate = 0.05;
    options.momentum = 0.9;
    options.optimizer = OptimizerKind::kSgdMomentum;
  }

  // Runs both ranks; errors() has what they threw.
  void run() {
    auto transports = connect_threads(2, 20);
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        try {
          run_rank(rank, *transports[rank]);
        } catch (const std::exception&) {
          errors[rank] = std::current_exception();
          transports[rank].reset();  // as a process that ends does
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }

  std::vector<std::string> lines_where(bool (*predicate)(const std::string&)) const {
    std::vector<std::string> chosen;
    std::ranges::copy_if(lines[0], std::back_inserter(chosen), predicate);
    return chosen;
  }

  TrainOptions options;
  std::vector<std::string> lines[2];      // [rank]
  std::exception_ptr errors[2];           // [rank]
  double validation_loss_at_end[2] = {};  // [rank]

 private:
  void run_rank(std::size_t rank, Transport& transport) {
    RankTrainerOptions trainer_options;
    trainer_options.train = options;
    trainer_options.trace = !options.trace_path.empty();
    RankTrainer trainer(plan_, graph_, cluster_, *dataset_, transport, trainer_options);
    run_training({.options = options,
                  .plan = plan_,
                  .graph = graph_,
                  .cluster = cluster_,
                  .costs = costs_,
                  .dataset = *dataset_,
                  .transport = transport,
                  .trainer = trainer},
                 [&](const std::string& line) { lines[rank].push_back(line); });
    const Split split = split_dataset(kAllSamples, options.seed);
    validation_loss_at_end[rank] = trainer.evaluate(split.validation).at("loss");
  }

  Graph graph_;
  Plan plan_;
  Cluster cluster_ = preset_cluster("local:2");
  AnalyticCosts costs_;
  std::unique_ptr<Dataset> dataset_;
};

TEST(TrainLoop, RunsTheIterationsAskedForAndLogsSomeOfThem) {
  TwoRanks two;
  two.options.iterations = 9;
  two.options.log_every = 3;
  two.run();
  const std::vector<std::string> iterations = two.lines_where(is_iteration);
  std::vector<double> logged;
  for (const std::string& line : iterations) logged.push_back(number_in(line, "iteration"));
  EXPECT_THAT(logged, ElementsAre(0, 3, 6, 8));  // the last too
  EXPECT_DOUBLE_EQ(number_in(iterations.back(), "epoch"), 9.0 / 7);
  EXPECT_GT(number_in(iterations.back(), "grad_norm"), 0);
  EXPECT_GT(number_in(iterations.back(), "samples_per_s"), 0);

  EXPECT_TRUE(two.lines[1].empty());  // rank 0 speaks for all
  ASSERT_EQ(two.lines[0].size(), 5);
  const std::string& done = two.lines[0].back();
  EXPECT_THAT(done, HasSubstr(R"({"done":true,"iterations":9,)"));
  EXPECT_THAT(done, HasSubstr(R"("stopped_early":false)"));
  EXPECT_GT(number_in(done, "rmse"), 0);
  EXPECT_GT(number_in(done, "measured_iteration_s"), 0);
  EXPECT_GT(number_in(done, "measured_s"), 0);
  EXPECT_GT(number_in(done, "predicted_s"), 0);
  EXPECT_GT(number_in(done, "bytes_sent"), 0);
  EXPECT_THAT(done, ::testing::Not(HasSubstr("baseline_rmse")));  // no ratings here
}

TEST(TrainLoop, StopsWhenValidationStopsImprovingAndKeepsTheBestWeights) {
  TwoRanks two;
  two.options.patience = 2;
  two.run();
  const std::vector<std::string> evaluations = two.lines_where(is_evaluation);
  ASSERT_GE(evaluations.size(), 3);
  std::vector<double> losses;
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    EXPECT_EQ(number_in(evaluations[i], "evaluation"), i + 1);
    EXPECT_EQ(number_in(evaluations[i], "epoch"), i + 1);
    losses.push_back(number_in(evaluations[i], "loss"));
  }
  const auto best = std::ranges::min_element(losses);
  EXPECT_EQ(losses.end() - best, 3);  // the best, and two without improvement
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const bool improved = std::all_of(losses.begin(), losses.begin() + static_cast<long>(i),
                                      [&](double before) { return losses[i] < before; });
    EXPECT_THAT(evaluations[i], HasSubstr(improved ? "\"best\":true" : "\"best\":false"));
  }
  EXPECT_EQ(two.validation_loss_at_end[0], *best);
  EXPECT_EQ(two.validation_loss_at_end[1], *best);
  EXPECT_THAT(two.lines[0].back(), HasSubstr(R"("stopped_early":true)"));
}

TEST(TrainLoop, RunsNoMoreThanTheEpochsAskedFor) {
  TwoRanks two;
  two.options.epochs = 2;
  two.options.patience = 0;
  two.run();
  EXPECT_EQ(two.lines_where(is_iteration).size(), 14);
  EXPECT_EQ(two.lines_where(is_evaluation).size(), 2);
}

TEST(TrainLoop, EvaluatesAsOftenAsAskedFor) {
  TwoRanks two;
  two.options.iterations = 5;
  two.options.eval_every = 2;
  two.run();
  const std::vector<std::string> evaluations = two.lines_where(is_evaluation);
  ASSERT_EQ(evaluations.size(), 3);  // after 2, 4 and at the end
  EXPECT_DOUBLE_EQ(number_in(evaluations[1], "epoch"), 4.0 / 7);
  EXPECT_EQ(two.validation_loss_at_end[0], number_in(evaluations[2], "loss"));
}

TEST(TrainLoop, EvaluatesBetweenEpochsWhereAskedFor) {
  TwoRanks two;
  two.options.epochs = 1;
  two.options.patience = 0;
  two.options.eval_every = 3;
  two.run();
  std::vector<double> epochs;
  for (const std::string& line : two.lines_where(is_evaluation)) {
    epochs.push_back(number_in(line, "epoch"));
  }
  EXPECT_THAT(epochs, ElementsAre(3.0 / 7, 6.0 / 7, 1));  // and at the end
}

TEST(TrainLoop, ReportsTheLearningRateOfTheStep) {
  TwoRanks two;
  two.options.iterations = 5;
  two.options.accumulate = 2;
  two.options.learning_rate = 0.5;
  two.options.rate_schedule = parse_rate_schedule("step:1,0.5", "");
  two.run();
  std::vector<double> rates;
  std::vector<double> iterations;
  for (const std::string& line : two.lines_where(is_iteration)) {
    rates.push_back(number_in(line, "learning_rate"));
    iterations.push_back(number_in(line, "iteration"));
    EXPECT_GT(number_in(line, "grad_norm"), 0);
  }
  EXPECT_THAT(iterations, ElementsAre(1, 3, 4));  // those that end a step
  EXPECT_THAT(rates, ElementsAre(0.5, 0.25, 0.125));
}

TEST(TrainLoop, AccumulatesToTheEndOfTheRun) {
  TwoRanks in_parts;
  in_parts.options.epochs = 1;
  in_parts.options.patience = 0;
  in_parts.options.accumulate = 7;
  in_parts.run();
  TwoRanks cut_short;
  cut_short.options = in_parts.options;
  cut_short.options.accumulate = 100;
  cut_short.run();
  EXPECT_EQ(cut_short.validation_loss_at_end[0], in_parts.validation_loss_at_end[0]);
  TwoRanks of_one_each;
  of_one_each.options = in_parts.options;
  of_one_each.options.accumulate = 1;
  of_one_each.run();
  EXPECT_EQ(in_parts.lines_where(is_iteration).size(), 1);
  EXPECT_NE(of_one_each.validation_loss_at_end[0], in_parts.validation_loss_at_end[0]);
}

TEST(TrainLoop, ClipsInIterationsThatAreNotLogged) {
  TwoRanks all_logged;
  all_logged.options.iterations = 7;
  all_logged.options.clip = 0.01;
  all_logged.run();
  TwoRanks two;
  two.options = all_logged.options;
  two.options.log_every = 100;
  two.run();
  EXPECT_EQ(two.lines_where(is_iteration).size(), 2);  // the first and the last
  EXPECT_EQ(two.validation_loss_at_end[0], all_logged.validation_loss_at_end[0]);
  TwoRanks unclipped;
  unclipped.options = all_logged.options;
  unclipped.options.clip = 0;
  unclipped.run();
  EXPECT_NE(unclipped.validation_loss_at_end[0], all_logged.validation_loss_at_end[0]);
}

// Between the iterations that are logged too.
TEST(TrainLoop, ALossThatIsNoNumberIsToldWhereItIsComputed) {
  TwoRanks two;
  two.options.iterations = 100;
  two.options.log_every = 50;
  two.options.learning_rate = 1e30;
  two.run();
  ASSERT_TRUE(two.errors[0] && two.errors[1]);
  try {
    std::rethrow_exception(two.errors[0]);
  } catch (const ActionError& error) {
    EXPECT_TRUE(error.peer_lost()) << error.what();
  }
  try {
    std::rethrow_exception(two.errors[1]);
  } catch (const ActionError& error) {
    EXPECT_FALSE(error.peer_lost());
    EXPECT_THAT(error.what(),
                MatchesRegex("rank 1 \\(iteration [12], stage 1, micro-batch 0, .*\\): loss is "
                             "(nan|infinite) at iteration [12]; try a smaller learning rate"));
  }
}

// Computed from numbers, it is looked at by all ranks alike, and told by the first.
TEST(TrainLoop, AValidationLossThatIsNoNumberIsToldByRank0) {
  TwoRanks two;
  two.options.iterations = 1;
  two.options.eval_every = 1;
  two.options.learning_rate = 1e30;
  two.run();
  ASSERT_TRUE(two.errors[0] && two.errors[1]);
  try {
    std::rethrow_exception(two.errors[1]);
  } catch (const PeerError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 0: "));
  }
  try {
    std::rethrow_exception(two.errors[0]);
  } catch (const PeerError& error) {
    ADD_FAILURE() << "rank 0 blames a peer: " << error.what();
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), MatchesRegex("validation loss is (nan|infinite) after 1 iterations; "
                                           "try a smaller learning rate"));
  }
}

TEST(TrainLoop, WritesTheTraceOfAllRanks) {
  const TestFolder folder;
  TwoRanks two;
  two.options.iterations = 2;
  two.options.trace_path = folder.path() + "/trace.json";
  two.run();
  const std::string trace = read_file(two.options.trace_path);
  EXPECT_THAT(trace, HasSubstr("0F0"));  // rank 0's
  EXPECT_THAT(trace, HasSubstr("1B2"));  // rank 1's
}

}  // namespace
}  // namespace graphpipe

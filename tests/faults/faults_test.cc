// Training runs with worker processes, in which something goes wrong: all processes end
// within seconds, and the first cause is told once, with its place. Three ranks, two of
// which are branches that meet in the third: rank 0 and rank 1 have no connection in use.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/file.h"
#include "graph/builder.h"
#include "job/checkpoint/checkpoint_folder.h"
#include "job/fault.h"
#include "job/job.h"
#include "job/launcher.h"
#include "job/status.h"
#include "job/test_folder.h"

namespace graphpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr int kRanks = 3;
constexpr double kMostS = 10;  // from the fault to the end of all processes

Graph two_branches() {
  GraphBuilder g("two branches");
  const TensorId a = g.relu("a.relu", g.linear("a", g.input("left", {8}), 16));
  const TensorId b = g.relu("b.relu", g.linear("b", g.input("right", {8}), 16));
  const TensorId y = g.linear("top", g.concat("join", {a, b}, -1), 4);
  g.loss(g.mse_loss("loss", y, g.input("target", {4})));
  return std::move(g).build();
}

Plan three_stages(const Graph& graph) {
  Plan plan;
  plan.model = "two branches";
  plan.planner = "by hand";
  plan.cluster = "local:3";
  plan.options = "none";
  plan.graph_hash = graph_hash(graph);
  plan.mini_batch = 8;
  plan.stages.resize(kRanks);
  plan.stages[0].ops = {OpId(0), OpId(1)};
  plan.stages[1].ops = {OpId(2), OpId(3)};
  for (std::size_t op = 4; op < graph.op_count(); ++op) plan.stages[2].ops.push_back(OpId(op));
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].devices = {DeviceId(s)};
    plan.stages[s].micro_batch = 2;
  }
  canonicalise(plan, graph);
  const std::vector<std::int64_t> in_flight = least_in_flight(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].in_flight_samples = in_flight[s];
  }
  return plan;
}

Cluster one_node() {
  Cluster cluster;
  cluster.name = "local:3";
  DeviceType type;
  type.name = "cpu";
  type.peak_flops_per_s = 1e9;
  type.memory_bandwidth_bytes_per_s = 1e9;
  type.memory_bytes = 1 << 30;
  cluster.types = {type};
  cluster.device_type.assign(kRanks, 0);
  Level node;
  node.name = "node";
  node.group_size = kRanks;
  node.link.bandwidth_bytes_per_s = 1e9;
  cluster.levels = {node};
  return cluster;
}

class Faults : public ::testing::Test {
 protected:
  Faults() {
    job_.kind = "train";
    job_.folder = folder_.path();
    job_.model = "two branches";
    job_.train.data = "synthetic";
    job_.train.iterations = 1000000;  // far from done when the fault comes
    job_.train.timeout_s = 60;        // so that no end here is owed to it
    const Graph graph = two_branches();
    write_job_inputs(job_.folder, {three_stages(graph), graph, one_node()});
  }
  ~Faults() override { unsetenv("GP_TEST_FAULT"); }

  LaunchResult launch() {
    write_job(job_);
    return run_workers(GP_WORKER, job_, kRanks, [this](const std::string& line) {
      lines_.push_back(line);
      if (line.find("\"iteration\":3,") != std::string::npos) reach_iteration_3();
    });
  }

  // Sends a signal to a rank once training is on its way.
  LaunchResult launch_and_send(int rank, int signal) {
    target_ = rank;
    signal_ = signal;
    const LaunchResult result = launch();
    EXPECT_LT(monotonic_s() - fault_at_s_, kMostS);
    return result;
  }

  void expect_nothing_left() {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
    for (const pid_t pid : pids_) EXPECT_EQ(kill(pid, 0), -1) << "process " << pid;
  }

  TestFolder folder_;
  Job job_;
  std::vector<std::string> lines_;

 private:
  void reach_iteration_3() {
    fault_at_s_ = monotonic_s();
    for (int rank = 0; rank < kRanks; ++rank) {
      pids_.push_back(StatusFile::open(status_path(job_.folder, rank))->status().pid);
    }
    if (signal_ != 0) kill(pids_[static_cast<std::size_t>(target_)], signal_);
  }

  int target_ = 0;
  int signal_ = 0;
  double fault_at_s_ = 0;
  std::vector<pid_t> pids_;
};

TEST_F(Faults, WithoutAnyTheRunEndsWell) {
  job_.train.iterations = 5;
  const LaunchResult result = launch();
  EXPECT_EQ(result.first_cause, "");
  EXPECT_EQ(result.exit_code, 0);
  ASSERT_EQ(lines_.size(), 6);
  EXPECT_THAT(lines_.back(), HasSubstr(R"({"done":true,"iterations":5,)"));
  expect_nothing_left();
}

TEST_F(Faults, ARankThatIsKilledIsTheFirstCause) {
  const LaunchResult result = launch_and_send(1, SIGKILL);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(
      result.first_cause,
      MatchesRegex("rank 1 on [^ ]+ \\(iteration [0-9]+, stage 1, .*\\): killed by signal 9 .*"));
  expect_nothing_left();
}

// Rank 0 also keeps the store through which the ranks met.
TEST_F(Faults, Rank0MayBeTheOneThatIsKilled) {
  const LaunchResult result = launch_and_send(0, SIGKILL);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(
      result.first_cause,
      MatchesRegex("rank 0 on [^ ]+ \\(iteration [0-9]+, stage 0, .*\\): killed by signal 9 .*"));
  expect_nothing_left();
}

TEST_F(Faults, ARankThatIsStoppedIsTheFirstCause) {
  const LaunchResult result = launch_and_send(2, SIGSTOP);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(
      result.first_cause,
      MatchesRegex("rank 2 on [^ ]+ \\(iteration [0-9]+, stage 2, .*\\): stopped by signal 19 .*"));
  expect_nothing_left();
}

TEST_F(Faults, ARankThatThrowsIsTheFirstCause) {
  setenv("GP_TEST_FAULT", "1:2:throw", 1);
  const LaunchResult result = launch();
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.first_cause,
            "rank 1 on " + host_name() +
                " (iteration 2, stage 1, micro-batch 0, 1B0): a fault for a test");
  expect_nothing_left();
}

TEST_F(Faults, ARankThatLeavesInSilenceIsTheFirstCause) {
  setenv("GP_TEST_FAULT", "2:2:exit", 1);
  const LaunchResult result = launch();
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.first_cause,
            "rank 2 on " + host_name() +
                " (iteration 2, stage 2, micro-batch 0, 2B0): exited before its work was done");
  expect_nothing_left();
}

TEST_F(Faults, ARankThatGivesNoSignOfLifeIsTheFirstCause) {
  setenv("GP_TEST_FAULT", "2:steady:mute", 1);
  job_.train.heartbeat_s = 1;
  const LaunchResult result = launch();
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.first_cause, "rank 2 on " + host_name() +
                                    " (iteration 2, stage 2, micro-batch 0, 2B0): no sign of life "
                                    "for 1 s (--heartbeat)");
  expect_nothing_left();
}

TEST_F(Faults, ARankThatHasNoMemoryLeftIsTheFirstCause) {
  setenv("GP_TEST_FAULT", "1:warm-up:memory", 1);
  const LaunchResult result = launch();
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.first_cause, "rank 1 on " + host_name() +
                                    " (iteration 0, stage 1, micro-batch 0, 1F0): out of memory");
  expect_nothing_left();
}

// The lines of a run that is killed while it saves for the second time, and of one that goes on
// from the first, are those of a run that was not stopped.
TEST_F(Faults, ARunThatIsKilledWhileItSavesGoesOnFromTheCheckpointBefore) {
  const auto without_times = [](const std::vector<std::string>& lines) {
    std::vector<std::string> cut;
    for (const std::string& line : lines)
      cut.push_back(line.substr(0, line.find("\"samples_per_s")));
    cut.pop_back();  // the end's report is of times
    return cut;
  };
  job_.train.iterations = 12;
  job_.train.optimizer = OptimizerKind::kAdam;
  EXPECT_EQ(launch().exit_code, 0);
  const std::vector<std::string> whole = without_times(std::exchange(lines_, {}));

  CheckpointOptions& options = job_.train.checkpoint;
  options.folder = folder_.path() + "/checkpoints";
  options.every = 4;
  setenv("GP_TEST_FAULT", "1:checkpoint:kill", 1);
  const LaunchResult killed = launch();
  EXPECT_EQ(killed.exit_code, 3);
  EXPECT_THAT(killed.first_cause, MatchesRegex("rank 1 on .*: killed by signal 9 .*"));
  expect_nothing_left();
  remove_partial_checkpoints(options.folder);

  lines_.clear();
  unsetenv("GP_TEST_FAULT");
  options.resume = newest_checkpoint(options.folder, "--resume");
  EXPECT_EQ(options.resume, options.folder + "/iteration-000000000004");
  EXPECT_EQ(launch().exit_code, 0);
  const std::vector<std::string> rest = without_times(lines_);
  ASSERT_EQ(whole.size(), 12);
  EXPECT_EQ(rest, std::vector<std::string>(whole.begin() + 4, whole.end()));
}

TEST_F(Faults, ALossThatIsNoNumberEndsTheRun) {
  job_.train.learning_rate = 1e30;
  const LaunchResult result = launch();
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(
      result.first_cause,
      MatchesRegex("rank 2 on [^ ]+ \\(iteration [12], stage 2, micro-batch 0, .*\\): loss is "
                   "(nan|infinite) at iteration [12]; try a smaller learning rate"));
  expect_nothing_left();
}

TEST_F(Faults, BadInputIsToldAsSuch) {
  job_.train.data = "/nowhere/at/all";
  const LaunchResult result = launch();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.first_cause,
              MatchesRegex("rank [012] on [^ ]+ \\(start\\): .*/nowhere/at/all.*"));
  expect_nothing_left();
}

}  // namespace
}  // namespace graphpipe

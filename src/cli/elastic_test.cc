// What an elastic run does when ranks are lost, with runs that are scripts.

#include "cli/elastic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "job/test_folder.h"

namespace graphpipe {
namespace {

using ::testing::ElementsAre;

JobInputs inputs_of(int ranks) {
  JobInputs inputs;
  inputs.plan.stages.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.plan.stages[static_cast<std::size_t>(rank)].devices = {DeviceId(rank)};
  }
  return inputs;
}

LaunchResult struck(const std::string& cause) {
  LaunchResult result;
  result.exit_code = 3;
  result.first_cause = cause;
  result.struck = true;
  return result;
}

class RunElastic : public ::testing::Test {
 protected:
  RunElastic() {
    run_.inputs = {inputs_of(3), inputs_of(2), inputs_of(1)};
    run_.checkpoints = folder_.path() + "/k";
    run_.on_line = [this](const std::string& line) { events_.push_back(line); };
    run_.on_restart = [this](const std::string& why, int ranks, const std::string& resume) {
      events_.push_back(why + ": " + std::to_string(ranks) + " from " + name(resume));
    };
    run_.run = [this](const JobInputs& inputs, const std::string& resume, const LineSink& on_line) {
      events_.push_back("run " + std::to_string(devices_used(inputs.plan)) + " from " +
                        name(resume));
      return scripts_.at(next_++)(on_line);
    };
  }
  static std::string name(const std::string& path) {
    return path.empty() ? "the beginning" : std::filesystem::path(path).filename().string();
  }
  void checkpoint(int iteration) const {
    const std::string path =
        run_.checkpoints + "/iteration-" + std::string(11, '0') + std::to_string(iteration);
    std::filesystem::create_directories(path);
    write_file(path + "/manifest.json", "{}");
  }

  TestFolder folder_;
  ElasticRun run_;
  std::vector<std::function<LaunchResult(const LineSink&)>> scripts_;
  std::size_t next_ = 0;
  std::vector<std::string> events_;
};

TEST_F(RunElastic, GoesOnWithFewerAndGrowsBackAtACheckpoint) {
  scripts_ = {[&](const LineSink&) {
                checkpoint(4);
                return struck("rank 1: killed");
              },
              [&](const LineSink& on_line) {
                on_line("5");
                checkpoint(8);
                on_line("8");
                ADD_FAILURE() << "it was to end here";
                return LaunchResult{};
              },
              [](const LineSink& on_line) {
                on_line("9");
                return LaunchResult{};
              }};
  const ElasticResult result = run_elastic(run_);
  EXPECT_EQ(result.result.exit_code, 0);
  EXPECT_EQ(result.lost, 0);
  EXPECT_THAT(
      events_,
      ElementsAre("run 3 from the beginning", "rank 1: killed: 2 from iteration-000000000004",
                  "run 2 from iteration-000000000004", "5", "8",
                  "all ranks again, at a checkpoint: 3 from iteration-000000000008",
                  "run 3 from iteration-000000000008", "9"));
}

TEST_F(RunElastic, BeginsAgainWhereThereIsNoCheckpoint) {
  scripts_ = {[](const LineSink&) { return struck("a"); },
              [](const LineSink&) { return struck("b"); },
              [](const LineSink&) { return struck("c"); }};
  const ElasticResult result = run_elastic(run_);
  EXPECT_EQ(result.result.first_cause, "c");  // no plan for fewer
  EXPECT_EQ(result.lost, 2);
  EXPECT_THAT(events_, ElementsAre("run 3 from the beginning", "a: 2 from the beginning",
                                   "run 2 from the beginning", "b: 1 from the beginning",
                                   "run 1 from the beginning"));
}

// Of three hosts with a rank each and one to spare, say.
TEST_F(RunElastic, AsManyAreLostAsTheHostsSay) {
  std::size_t asked = 0;
  run_.count_lost = [](const LaunchResult& result) {
    return result.first_cause == "a" ? std::size_t{0} : std::size_t{2};
  };
  run_.all_back = [&] { return ++asked == 2; };
  scripts_ = {[](const LineSink&) { return struck("a"); },
              [](const LineSink&) { return struck("b"); },
              [&](const LineSink& on_line) {
                checkpoint(1);
                on_line("1");
                on_line("2");
                EXPECT_EQ(asked, 1);  // once a checkpoint
                checkpoint(3);
                on_line("3");
                ADD_FAILURE() << "it was to end here";
                return LaunchResult{};
              },
              [](const LineSink&) { return LaunchResult{}; }};
  EXPECT_EQ(run_elastic(run_).lost, 0);
  EXPECT_THAT(
      events_,
      ElementsAre("run 3 from the beginning", "a: 3 from the beginning", "run 3 from the beginning",
                  "b: 1 from the beginning", "run 1 from the beginning", "1", "2", "3",
                  "all ranks again, at a checkpoint: 3 from iteration-000000000003",
                  "run 3 from iteration-000000000003"));
}

TEST_F(RunElastic, AnErrorOfARankItselfEndsTheRun) {
  scripts_ = {[](const LineSink&) {
    LaunchResult result = struck("rank 1: loss is nan");
    result.struck = false;
    return result;
  }};
  EXPECT_EQ(run_elastic(run_).result.first_cause, "rank 1: loss is nan");
  EXPECT_EQ(next_, 1);
}

}  // namespace
}  // namespace graphpipe

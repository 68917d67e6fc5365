#include "job/train_lines.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace graphpipe {
namespace {

TEST(TrainLines, AnIteration) {
  IterationLine line;
  line.iteration = 12;
  line.epoch = 0.25;
  line.loss = 1.5;
  line.grad_norm = 0.5;
  line.learning_rate = 0.125;
  line.samples_per_s = 1000;
  EXPECT_EQ(to_json_line(line),
            R"({"iteration":12,"epoch":0.25,"loss":1.5,"grad_norm":0.5,"learning_rate":0.125,)"
            R"("samples_per_s":1000.0})");
}

TEST(TrainLines, AnEvaluation) {
  EvaluationLine line;
  line.evaluation = 3;
  line.epoch = 3;
  line.validation = {{"rmse", 0.875}, {"loss", 0.75}};
  line.best = true;
  line.elapsed_s = 2.5;
  EXPECT_EQ(
      to_json_line(line),
      R"({"evaluation":3,"epoch":3.0,"validation":{"loss":0.75,"rmse":0.875},"best":true,"elapsed_s":2.5})");
}

TEST(TrainLines, TheEnd) {
  DoneLine line;
  line.iterations = 100;
  line.epochs = 2;
  line.stopped_early = true;
  line.metrics = {{"loss", 0.75}, {"rmse", 0.875}, {"done", 7}};  // a metric of a field's name
  line.validation = {{"loss", 0.5}};
  line.baseline_rmse = 1;
  line.elapsed_s = 8;
  line.predicted_iteration_s = 0.5;
  line.measured_iteration_s = 0.25;
  line.executor_overhead = 0.125;
  line.action_s = 0.0625;
  line.ranks = 4;
  line.cores = 2;
  StageReport stage;
  stage.predicted_s = 0.5;
  stage.measured_s = 0.25;
  stage.measured_wall_s = 0.75;
  stage.predicted_peak_bytes = 4096;
  stage.measured_peak_bytes = 2048;
  stage.bytes_sent = 1024;
  line.stages = {stage};
  EXPECT_EQ(to_json_line(line),
            R"({"done":true,"iterations":100,"epochs":2.0,"stopped_early":true,"skipped_steps":0,)"
            R"("metrics":{"done":7.0,"loss":0.75,"rmse":0.875},"validation":{"loss":0.5},)"
            R"("baseline_rmse":1.0,"elapsed_s":8.0,"predicted_iteration_s":0.5,)"
            R"("measured_iteration_s":0.25,"executor_overhead":0.125,"action_s":0.0625,)"
            R"("ranks":4,"cores":2,"stages":[{"stage":0,"predicted_s":0.5,"measured_s":0.25,)"
            R"("measured_wall_s":0.75,"predicted_peak_bytes":4096,"measured_peak_bytes":2048,)"
            R"("bytes_sent":1024}],"loss":0.75,"rmse":0.875})");
}

TEST(TrainLines, AnIterationThatWasSkippedIsReadBack) {
  IterationLine line;
  line.iteration = 3;
  line.loss = std::nan("");
  line.skipped = true;
  const TrainLine read = parse_train_line(to_json_line(line));
  ASSERT_TRUE(std::holds_alternative<IterationLine>(read));
  EXPECT_TRUE(std::isnan(std::get<IterationLine>(read).loss));
  EXPECT_TRUE(std::get<IterationLine>(read).skipped);
}

// Other output of a worker's; some of it ended the launcher once.
TEST(TrainLines, WhatHasOtherTypesIsNone) {
  for (const char* text :
       {"", "{", "[1]", "null", "{}", R"({"iteration":"1"})", R"({"iteration":1e300})",
        R"({"iteration":1,"epoch":[]})", R"({"done":1})", R"({"done":true,"stages":[1]})",
        R"({"done":true,"stages":[{"stage":99999999999}]})", R"({"evaluation":1,"best":2})",
        R"({"evaluation":1,"validation":[1]})", R"({"iteration":1,"wall_s":"x"})"}) {
    EXPECT_TRUE(std::holds_alternative<std::monostate>(parse_train_line(text))) << text;
  }
  const std::string deep(100'000, '[');
  EXPECT_TRUE(std::holds_alternative<std::monostate>(parse_train_line("{\"iteration\":" + deep)));
}

}  // namespace
}  // namespace graphpipe

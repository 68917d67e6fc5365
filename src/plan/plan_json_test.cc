#include "plan/plan_json.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/test_plans.h"

namespace graphpipe {
namespace {

Plan judged_plan() {
  Plan plan = chain_plan(two_branches(), {{"a", "b"}, {"c"}, {"join", "head", "loss", "score"}});
  plan.stages[1].devices = {DeviceId(1), DeviceId(3)};
  plan.stages[1].replication = Replication::kRoundRobin;
  plan.stages[2].kfkb = 2;
  plan.optimizer = OptimizerKind::kSgdMomentum;
  plan.schedule = ScheduleKind::kGpipe;
  plan.edges.push_back({StageId(1), StageId(2), EdgeKind::kOrder, {}, true});
  plan.estimate = {.iteration_s = 0.3,
                   .throughput_samples_per_s = 8 / 0.3,
                   .bubble_fraction = 0.1,
                   .lower_bound_s = 0.2,
                   .search_s = 0.01,
                   .stage_tps_s = {0.1, 0.2, 1.0 / 3},
                   .stage_memory_bytes = {100, 200, 300}};
  return plan;
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string fault(const std::string& from, const std::string& to) {
  try {
    parse_plan(changed(to_json(judged_plan(), two_branches()), from, to), "p.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(PlanJson, WhatIsWrittenIsReadTheSame) {
  const Plan plan = judged_plan();
  EXPECT_EQ(parse_plan(to_json(plan, two_branches()), "p.json"), plan);
}

TEST(PlanJson, APlanThatWasNotJudgedIsReadTheSame) {
  Plan plan = judged_plan();
  plan.estimate = {};
  const std::string text = to_json(plan, two_branches());
  EXPECT_NE(text.find("\"memory_bytes\": null"), std::string::npos);
  EXPECT_NE(text.find("\"gap\": null"), std::string::npos);
  EXPECT_EQ(parse_plan(text, "p.json"), plan);
}

TEST(PlanJson, NamesOperatorsAndTensorsForPeople) {
  const std::string text = to_json(judged_plan(), two_branches());
  EXPECT_NE(text.find(R"("ops": [
        "a",
        "b"
      ],
      "op_ids": [
        0,
        1
      ])"),
            std::string::npos);
  EXPECT_NE(text.find(R"("from": 0,
      "to": 1,
      "kind": "data",
      "tensors": [
        "a"
      ])"),
            std::string::npos);
}

TEST(PlanJson, WritesWhatFollowsFromTheRest) {
  const std::string text = to_json(judged_plan(), two_branches());
  for (const char* line : {"\"status\": \"ok\"", "\"devices\": 4,", "\"micro_batch\": 2,",
                           "\"depth\": 3", "\"bytes_per_sample\": 16", "\"gap\": 0.4999999999"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(PlanJson, MicroBatchIsNullWhereStagesDiffer) {
  Plan plan = judged_plan();
  plan.stages[0].micro_batch = 4;
  const std::string text = to_json(plan, two_branches());
  EXPECT_NE(text.find("\"micro_batch\": null"), std::string::npos);
  EXPECT_EQ(parse_plan(text, "p.json"), plan);
}

TEST(PlanJson, RefusesAnotherFormatOrVersion) {
  EXPECT_EQ(fault("graphpipe-plan", "graphpipe-graph"),
            "p.json: /format: expected \"graphpipe-plan\", found \"graphpipe-graph\"; this is not "
            "a plan");
  EXPECT_EQ(fault("\"version\": 1", "\"version\": 9"),
            "p.json: /version: expected 1, found 9; plan anew with this program");
  EXPECT_EQ(fault("\"status\": \"ok\"", "\"status\": \"infeasible\""),
            "p.json: /status: expected \"ok\", found \"infeasible\"; no plan was found");
}

TEST(PlanJson, PointsAtWhatIsWrong) {
  EXPECT_EQ(fault("\"round_robin\"", "\"roundrobin\""),
            "p.json: /stages/1/replication: expected one of split, round_robin, found "
            "\"roundrobin\"");
  EXPECT_EQ(fault("\"order\"", "\"loose\""),
            "p.json: /edges/3/kind: expected one of data, order, found \"loose\"");
  EXPECT_EQ(fault("\"sgd-momentum\"", "\"lamb\""),
            "p.json: /optimizer: expected one of sgd, sgd-momentum, adam, found \"lamb\"");
  EXPECT_EQ(fault("\"gpipe\"", "\"dapple\""),
            "p.json: /schedule: expected one of 1f1b, gpipe, zb-h1, found \"dapple\"");
  EXPECT_EQ(fault("\"kfkb\": 2", "\"kfkb\": 0"),
            "p.json: /stages/2/kfkb: expected a whole number of at least 1, found 0");
  EXPECT_EQ(fault("\"from\": 1", "\"from\": 9000000000"),
            "p.json: /edges/2/from: expected at most 2147483647, found 9000000000");
}

TEST(PlanJson, RefusesNamesThatDoNotMatchTheirNumbers) {
  EXPECT_EQ(fault("        \"a\",\n        \"b\"\n", "        \"a\"\n"),
            "p.json: /stages/0/ops: expected a name for each of the 2 op_ids, found 1");
}

TEST(PlanJson, RefusesAHashThatIsNone) {
  try {
    std::string text = to_json(judged_plan(), two_branches());
    const auto at = text.find("\"graph_hash\": \"") + std::string("\"graph_hash\": \"").size();
    parse_plan(text.replace(at, 16, "0123"), "p.json");
    FAIL() << "the hash was read";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "p.json: /graph_hash: expected 16 lower-case hexadecimal digits, found \"0123\"");
  }
}

TEST(PlanJson, RefusesEstimatesOfSomeStagesOnly) {
  EXPECT_EQ(fault("\"memory_bytes\": 200", "\"memory_bytes\": null"),
            "p.json: /stages: tps_s and memory_bytes must be null on all stages or on none");
}

}  // namespace
}  // namespace graphpipe

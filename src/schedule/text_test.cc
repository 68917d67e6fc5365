#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/build.h"
#include "schedule/test_plans.h"

namespace graphpipe {
namespace {

TestPlan chain_of_two() {
  return make_plan({.edges = "0>1", .in_flight = {4, 2}, .samples = 5, .sizes = {2, 2}});
}

std::string parse_error(const std::string& text, const TestPlan& t) {
  try {
    parse_schedule(text, t.plan, "grid.txt");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ActionText, NamesWhatHappens) {
  const TestPlan t = chain_of_two();
  const auto text = [&](ActionKind kind, EdgeId edge = {}, Direction direction = {}) {
    return to_text(Action{.kind = kind,
                          .stage = StageId(1),
                          .micro_batch = 2,
                          .samples = {4, 5},
                          .edge = edge,
                          .direction = direction,
                          .bucket = 0},
                   t.plan);
  };
  const EdgeId edge(0);
  EXPECT_EQ(text(ActionKind::kForward), "1F2");
  EXPECT_EQ(text(ActionKind::kBackward), "1B2");
  EXPECT_EQ(text(ActionKind::kBackwardInput), "1I2");
  EXPECT_EQ(text(ActionKind::kBackwardWeight), "1W2");
  EXPECT_EQ(text(ActionKind::kRecompute), "1R2");
  EXPECT_EQ(text(ActionKind::kPostReceive, edge), "post 0>1 F [4,5)");
  EXPECT_EQ(text(ActionKind::kWaitReceive, edge), "recv 0>1 F [4,5)");
  EXPECT_EQ(text(ActionKind::kStartSend, edge, Direction::kBackward), "send 0>1 B [4,5)");
  EXPECT_EQ(text(ActionKind::kWaitSend, edge, Direction::kBackward), "sent 0>1 B [4,5)");
  EXPECT_EQ(text(ActionKind::kFree), "free 1 [4,5)");
  EXPECT_EQ(text(ActionKind::kFree, edge), "free 0>1 F [4,5)");
  EXPECT_EQ(text(ActionKind::kStartReduce), "reduce #0 to v2");  // in a stream
  EXPECT_EQ(text(ActionKind::kWaitReduce), "reduced #0 to v2");
  EXPECT_EQ(to_text(Action{.kind = ActionKind::kStartReduce, .bucket = 0}, t.plan), "reduce #0");
  EXPECT_EQ(to_text(Action{.kind = ActionKind::kStep, .stage = StageId(1)}, t.plan), "step 1");
  EXPECT_EQ(text(ActionKind::kStep), "step 1 to v2");  // in a stream
  EXPECT_EQ(text(ActionKind::kMakeVersion), "keep 1 v2");
  EXPECT_EQ(text(ActionKind::kDropVersion), "drop 1 v2");
}

TEST(ParseSchedule, GivesSamplesByTheOwnerMap) {
  const TestPlan t = chain_of_two();
  const Schedule schedule = parse_schedule("0F0 0F1\n1F0 1B0\n", t.plan, "grid.txt");
  EXPECT_EQ(schedule.samples, 5);
  EXPECT_TRUE(schedule.training);
  EXPECT_EQ(schedule.ranks[0].device, DeviceId(0));
  EXPECT_EQ(schedule.ranks[1].prologue[1],
            (Action{.kind = ActionKind::kBackward, .stage = StageId(1), .samples = {0, 2}}));
}

TEST(ParseSchedule, BlankLinesAndIndentationDoNotMatter) {
  const TestPlan t = chain_of_two();
  EXPECT_EQ(parse_schedule("\n   0F0  0F1\n\n\t1F0 1B0  ", t.plan, "a"),
            parse_schedule("0F0 0F1\n1F0 1B0\n", t.plan, "b"));
}

TEST(ParseSchedule, ADashIsARankWithNothingToDo) {
  const TestPlan t = chain_of_two();
  const Schedule schedule = parse_schedule("-\n1F0\n", t.plan, "grid.txt");
  EXPECT_TRUE(schedule.ranks[0].prologue.empty());
  EXPECT_FALSE(schedule.training);
  EXPECT_EQ(to_text(schedule, t.plan), "-\n1F0\n");
}

TEST(ParseSchedule, RefusesWordsThatAreNoTask) {
  const TestPlan t = chain_of_two();
  for (const std::string word : {"0X0", "F0", "0F", "0F0x", "0F-1", "-1F0", "0"}) {
    EXPECT_EQ(parse_error("0F0 " + word + "\n1F0\n", t),
              "grid.txt:1: '" + word +
                  "': expected a stage, one of F B I W R, and a micro-batch, as in 0F0");
  }
}

TEST(ParseSchedule, RefusesStagesAndMicroBatchesThatDoNotExist) {
  const TestPlan t = chain_of_two();
  EXPECT_EQ(parse_error("0F0\n2F0\n", t),
            "grid.txt:2: '2F0': there is no stage 2; the plan has 2, counted from 0");
  EXPECT_EQ(parse_error("0F3\n1F0\n", t),
            "grid.txt:1: '0F3': there is no micro-batch 3; stage 0 has 3, counted from 0");
}

TEST(ParseSchedule, RefusesMoreOrFewerLinesThanDevices) {
  const TestPlan t = chain_of_two();
  EXPECT_EQ(parse_error("0F0\n", t),
            "grid.txt: expected 2 lines, one for each device of the plan, found 1; write - for a "
            "rank that has nothing to do");
  EXPECT_EQ(parse_error("0F0\n1F0\n\n1F0\n", t),
            "grid.txt:4: a line more than the plan has devices (2)");
}

TEST(ParseSchedule, ReadsWhatToTextWrites) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const PlanSpec spec = random_spec(seed);
    const TestPlan t = make_plan(spec);
    const Schedule schedule = build_schedule(t.plan, t.graph, spec.samples);
    const std::string text = to_text(schedule, t.plan);
    const Schedule parsed = parse_schedule(text, t.plan, "text");
    EXPECT_EQ(to_text(parsed, t.plan), text) << "seed " << seed;
    for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
      std::vector<Action> actions;
      for (ActionCursor at(schedule, t.plan, RankId(r)); !at.done(); at.next()) {
        actions.push_back(at.action());
      }
      EXPECT_EQ(parsed.ranks[r].prologue, actions) << "seed " << seed << ", rank " << r;
    }
  }
}

}  // namespace
}  // namespace graphpipe

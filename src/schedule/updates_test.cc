#include "schedule/updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/test_large_chain.h"
#include "schedule/verify.h"

namespace graphpipe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Updates : public testing::Test {
 protected:
  void lower_again(std::int64_t mini_batch) {
    large_.plan.mini_batch = mini_batch;
    schedule_ =
        lower(build_schedule(large_.plan, large_.graph, mini_batch), large_.plan, large_.graph);
  }
  std::vector<std::string> texts(int rank) const {
    std::vector<std::string> result;
    for (ActionCursor at(schedule_, large_.plan, RankId(rank)); !at.done(); at.next()) {
      result.push_back(to_text(at.action(), large_.plan));
    }
    return result;
  }
  std::vector<Fault> faults() const {
    return verify(schedule_, large_.plan, large_.graph, large_.cluster, large_.costs).faults;
  }
  // The rank's action with this text, and all that hold it.
  std::vector<Action>& section() { return schedule_.ranks[0].epilogue; }
  std::size_t place(const std::string& text) {
    for (std::size_t i = 0; i < section().size(); ++i) {
      if (to_text(section()[i], large_.plan) == text) return i;
    }
    ADD_FAILURE() << "no " << text;
    return 0;
  }

  LargeChain large_{1};
  Schedule schedule_;
};

TEST_F(Updates, ABucketStartsWhenTheLastBackwardHasMadeItsGradients) {
  lower_again(2);
  const auto all = ElementsAre("0F0", "0B0", "reduce #0 in 0B0", "reduce #1 in 0B0",
                               "reduced #0 in 0B0", "reduce #2 in 0B0", "free 0 [0,1)",
                               "reduced #1", "reduce #3", "reduced #2", "reduced #3", "step 0");
  EXPECT_THAT(texts(0), all);
  EXPECT_THAT(faults(), IsEmpty());
  std::vector<OpId> after;
  for (const RankProgram& program : {schedule_.ranks[0]}) {
    for (const std::vector<Action>* part : {&program.prologue, &program.epilogue}) {
      for (const Action& action : *part) {
        if (action.after.valid()) after.push_back(action.after);
      }
    }
  }
  EXPECT_THAT(after, ElementsAre(OpId(3), OpId(2), OpId(1), OpId(1)));
}

TEST_F(Updates, TheLastRepetitionIsNoLongerOfThePeriod) {
  lower_again(2000);
  EXPECT_GT(schedule_.repeats, 100);
  EXPECT_THAT(faults(), IsEmpty());
  int within = 0;
  std::int64_t position = -1;
  for (ActionCursor at(schedule_, large_.plan, RankId(1)); !at.done(); at.next()) {
    if (at.action().kind == ActionKind::kBackward) position = at.action().micro_batch;
    if (!at.action().after.valid()) continue;
    ++within;
    EXPECT_EQ(position, 999);
    EXPECT_EQ(at.action().micro_batch, 999);
  }
  EXPECT_EQ(within, 4);
}

TEST_F(Updates, RanksThatTakeTurnsDoNotWaitWithinABackward) {
  large_.plan.stages[0].replication = Replication::kRoundRobin;
  large_.plan.stages[0].in_flight_samples = 4;
  lower_again(8);
  EXPECT_THAT(faults(), IsEmpty());
  const std::vector<std::string> all = texts(0);
  EXPECT_THAT(all, testing::Contains("reduce #1 in 0B2"));
  EXPECT_THAT(all, testing::Not(testing::Contains("reduced #0 in 0B2")));
  EXPECT_THAT(all, testing::Contains("reduce #2"));
}

TEST_F(Updates, StandBehindTheBackwardThatTheyAreWithin) {
  lower_again(2000);
  const std::size_t at = place("reduce #0 in 0B999");
  const Action moved = section()[at];
  section().erase(section().begin() + static_cast<std::ptrdiff_t>(at));
  section().insert(section().begin() + static_cast<std::ptrdiff_t>(place("reduced #1")), moved);
  std::vector<std::string> found;
  for (const Fault& fault : faults()) found.push_back(fault.rule + ": " + fault.message);
  EXPECT_THAT(found, testing::UnorderedElementsAre(
                         "V8: is not within the backward that stands before it",
                         "V8: waits for the reduction of bucket 0 before it starts it"));
}

TEST_F(Updates, DoNotStartBeforeTheirGradientsAreMade) {
  lower_again(2000);
  section()[place("reduce #2 in 0B999")].after = OpId(2);
  const std::vector<Fault> found = faults();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rule, "V8");
  EXPECT_EQ(found[0].message,
            "starts after operator 'op2', and 'op1' adds to the gradient of 'op1.weight' later");
}

}  // namespace
}  // namespace graphpipe

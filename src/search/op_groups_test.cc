#include "search/op_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>

#include "planners/test_problems.h"

namespace graphpipe {
namespace {

// "0", "0 1", ...: the groups of a stage with these operators.
std::vector<std::string> groups(const Dependencies& before, const std::vector<int>& stage) {
  const TestProblem test = even_problem(before, 1, 1);
  Ops ops;
  for (const int op : stage) ops.emplace_back(op);
  std::vector<std::string> texts;
  for (const Ops& group : groups_that_may_leave(test.graph, ops)) {
    std::vector<int> values;
    for (const OpId op : group) values.push_back(op.value);
    texts.push_back(fmt::format("{}", fmt::join(values, " ")));
  }
  return texts;
}

TEST(GroupsThatMayLeave, OfAChainAreItsHeadsAndTails) {
  EXPECT_EQ(groups({{}, {0}, {1}, {2}}, {0, 1, 2, 3}),
            (std::vector<std::string>{"0", "0 1", "0 1 2", "1 2 3", "2 3", "3"}));
}

TEST(GroupsThatMayLeave, OfADiamondLeaveItsOrder) {
  EXPECT_EQ(groups({{}, {0}, {0}, {1, 2}}, {0, 1, 2, 3}),
            (std::vector<std::string>{"0", "0 1", "0 2", "1 3", "2 3", "3"}));
}

TEST(GroupsThatMayLeave, HaveWholePartsThatDoNotTouch) {
  // Operator 1, between them, is another stage's.
  EXPECT_EQ(groups({{}, {0}, {1}, {2}}, {0, 2, 3}),
            (std::vector<std::string>{"0", "2", "2 3", "3"}));
}

TEST(GroupsThatMayLeave, OfOneOperatorThereAreNone) { EXPECT_TRUE(groups({{}, {0}}, {1}).empty()); }

TEST(GroupsThatMayLeave, OfALongChainGrowByDoubling) {
  Dependencies chain(300);
  std::vector<int> all = {0};
  for (int op = 1; op < 300; ++op) {
    chain[static_cast<std::size_t>(op)] = {op - 1};
    all.push_back(op);
  }
  EXPECT_EQ(groups(chain, all).size(), 2U * 9);  // 1, 2, 4, ... 256 at either end
}

}  // namespace
}  // namespace graphpipe

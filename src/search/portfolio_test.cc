#include "search/portfolio.h"

#include <gtest/gtest.h>

#include "planners/test_problems.h"
#include "search/test_branches.h"

namespace graphpipe {
namespace {

TEST(SearchPortfolio, IsNeverWorseThanAnyPlannerAndSaysWhosePlanItIs) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const TestProblem test = random_problem(kBranches, 5, 20, seed % 2 == 0, seed);
    const PortfolioResult portfolio = search_portfolio(planners(), test.problem());
    ASSERT_EQ(portfolio.entries.size(), planners().size());
    const SearchResult& best = portfolio.best;
    for (const PortfolioEntry& entry : portfolio.entries) {
      if (entry.result.status != PlanStatus::kOk) continue;
      ASSERT_EQ(best.status, PlanStatus::kOk) << "seed " << seed;
      EXPECT_LE(best.plan.estimate.iteration_s, entry.result.plan.estimate.iteration_s)
          << entry.planner << ", seed " << seed;
    }
    if (best.status != PlanStatus::kOk) continue;
    const SearchResult found = search_plan(planner_named(best.plan.planner), test.problem());
    EXPECT_EQ(plan_hash(found.plan), plan_hash(best.plan)) << "seed " << seed;
  }
}

TEST(SearchPortfolio, TakesAnotherPlannersPlanWhereThatIsFaster) {
  const TestProblem test = even_problem(kBranches, 4, 16);
  std::vector<Planner> two = {planner_named("data-parallel"), planner_named("graphpipe")};
  TestProblem tight = test;
  for (Parameter& param : tight.graph.params) param.shape = {1000};
  tight.cluster.types[0].memory_bytes = 30'000;  // not for a whole replica
  const PortfolioResult portfolio = search_portfolio(two, tight.problem());
  ASSERT_EQ(portfolio.best.status, PlanStatus::kOk) << portfolio.best.reason;
  EXPECT_EQ(portfolio.entries[0].result.status, PlanStatus::kInfeasible);
  EXPECT_EQ(portfolio.best.plan.planner, "graphpipe");
}

TEST(SearchPortfolio, GivesEveryPlannersReasonWhereThereIsNoPlan) {
  TestProblem test = even_problem(kBranches, 4, 16);
  test.cluster.types[0].memory_bytes = 10;
  const SearchResult best = search_portfolio(planners(), test.problem()).best;
  EXPECT_EQ(best.status, PlanStatus::kInfeasible);
  for (const Planner& planner : planners()) {
    EXPECT_NE(best.reason.find("\n  " + planner.name + ": "), std::string::npos) << best.reason;
  }
}

}  // namespace
}  // namespace graphpipe

// Sizes of hostile plans.

#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/plan.h"
#include "plan/test_plans.h"

namespace graphpipe {
namespace {

TEST(PlanValidate, P6SizesThatWouldOverflow) {
  const Graph model = two_branch_graph();
  Cluster cluster;
  cluster.device_type = {0, 0};
  Plan plan = chain_plan(model, {{"a", "b", "c", "join"}, {"head", "loss", "score"}});
  const auto refusal = [&]() -> std::string {
    try {
      validate(plan, model, cluster, "p");
      return "";
    } catch (const InputError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal(), "");
  plan.stages[0].in_flight_samples = std::int64_t{1} << 62;
  EXPECT_EQ(refusal(),
            "p: /stages/0/in_flight_samples: P6: expected at most 1073741824, found "
            "4611686018427387904");
  plan.stages[0].kfkb = 2'000'000'000;
  EXPECT_EQ(refusal(), "p: /stages/0/kfkb: P6: expected at most 1024, found 2000000000");
  plan.mini_batch = std::int64_t{1} << 62;
  EXPECT_EQ(refusal(), "p: /mini_batch: P6: expected at most 67108864, found 4611686018427387904");
}

}  // namespace
}  // namespace graphpipe

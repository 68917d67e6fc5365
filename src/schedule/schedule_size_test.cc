#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/build.h"
#include "schedule/test_plans.h"

namespace graphpipe {
namespace {

TEST(BuildSchedule, S7WhatIsWrittenOutFitsInMemory) {
  PlanSpec spec = {
      .edges = "0>1", .samples = (1 << 20) + 1, .kind = ScheduleKind::kGpipe, .stages = 2};
  const TestPlan all_forwards_first = make_plan(spec);
  try {
    build_schedule(all_forwards_first.plan, all_forwards_first.graph, spec.samples);
    FAIL() << "it was built";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "the schedule: S7: a mini-batch of 1048577 samples has 2097154 forwards that are "
                 "not repetitions, more than the 2097152 that can be held; take larger "
                 "micro-batches, fewer samples in flight, or a schedule with a period (1f1b, one "
                 "stage a device)");
  }
  spec.kind = ScheduleKind::k1F1B;
  const TestPlan alternating = make_plan(spec);
  EXPECT_GT(build_schedule(alternating.plan, alternating.graph, spec.samples).repeats, 1 << 19);
}

}  // namespace
}  // namespace graphpipe

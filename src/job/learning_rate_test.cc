#include "job/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.h"

namespace graphpipe {
namespace {

RateSchedule parse(const std::string& text) { return parse_rate_schedule(text, "--lr-schedule"); }

std::string fault(const std::string& text) {
  try {
    parse(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::vector<double> rates(const std::string& text, double rate, std::int64_t steps) {
  std::vector<double> result;
  for (std::int64_t s = 0; s < steps; ++s) result.push_back(scheduled_rate(rate, parse(text), s));
  return result;
}

TEST(RateSchedule, ConstantStaysAsItIs) {
  EXPECT_EQ(rates("constant", 0.1, 3), std::vector<double>({0.1, 0.1, 0.1}));
}

TEST(RateSchedule, StepFallsEverySoManySteps) {
  EXPECT_EQ(rates("step:2,0.5", 8, 7), std::vector<double>({8, 8, 4, 4, 2, 2, 1}));
}

TEST(RateSchedule, CosineFallsToZeroAndStaysThere) {
  const std::vector<double> found = rates("cosine:4", 2, 6);
  const double root = std::sqrt(0.5);
  const std::vector<double> expected{2, 1 + root, 1, 1 - root, 0, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-15) << i;
  EXPECT_EQ(found[4], 0);
}

TEST(RateSchedule, WarmUpRisesFromZeroToTheFullRate) {
  const std::vector<double> found = rates("cosine:8,4", 2, 9);
  const double root = std::sqrt(0.5);
  const std::vector<double> expected{0, 0.5, 1, 1.5, 2, 1 + root, 1, 1 - root, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-15) << i;
}

TEST(RateSchedule, ReadsBackItsText) {
  for (const std::string text : {"constant", "step:30,0.1", "cosine:1000", "cosine:1000,50"}) {
    EXPECT_EQ(to_text(parse(text)), text);
  }
  EXPECT_EQ(parse("cosine:7,0"), parse("cosine:7"));
}

TEST(RateSchedule, SaysWhatIsWrong) {
  EXPECT_EQ(fault("linear"),
            "--lr-schedule: expected constant, step:EVERY,FACTOR or cosine:TOTAL[,WARMUP], found "
            "\"linear\"");
  for (const std::string text :
       {"constant:1", "step", "step:3", "step:3,1,1", "cosine:", "cosine:1,2,3", ""}) {
    EXPECT_NE(fault(text), "") << text;
  }
  EXPECT_EQ(fault("step:0,0.5"), "--lr-schedule: EVERY is 0, expected at least 1");
  EXPECT_EQ(fault("step:2,0"), "--lr-schedule: FACTOR is 0, expected a number above 0");
  EXPECT_EQ(fault("step:2,inf"), "--lr-schedule: expected a finite number, found \"inf\"");
  EXPECT_EQ(fault("cosine:0"), "--lr-schedule: TOTAL is 0, expected at least 1");
  EXPECT_EQ(fault("cosine:ten"), "--lr-schedule: expected a whole number, found \"ten\"");
  EXPECT_EQ(fault("cosine:10,10"),
            "--lr-schedule: WARMUP is 10, expected less than TOTAL, which is 10");
  EXPECT_EQ(fault("cosine:10,-1"), "--lr-schedule: WARMUP is -1, expected at least 0");
}

}  // namespace
}  // namespace graphpipe

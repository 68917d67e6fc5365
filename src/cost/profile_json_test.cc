#include "cost/profile_json.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace graphpipe {
namespace {

Profile measured() {
  Profile profile;
  profile.model = "movielens";
  profile.graph_hash = 0x0123456789abcdefULL;
  profile.device = "cpu: two of them";
  profile.library = "libtorch 1.13.1";
  profile.load = 4;
  profile.cores = 2;
  profile.action_overhead_s = 12e-6;
  profile.transfer_latency_s = 130e-6;
  profile.transfer_bytes_per_s = 1.5e9;
  profile.reduce_latency_s = 15e-6;
  profile.reduce_bytes_per_s = 0.5e9;
  profile.steps[1] = {2e-6, 8e9};
  profile.entries["linear x(16) \"quoted\""] = {{{1, 0.1, 1.0 / 3, 64, 0}, {8, 0.5, 1, 512, 9}},
                                                ""};
  profile.entries["attention"] = {{}, "out of memory at 8 samples"};
  return profile;
}

std::string fault(const std::string& from, const std::string& to) {
  std::string text = to_json(measured());
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  try {
    parse_profile(text.replace(at, from.size(), to), "p.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ProfileJson, WhatIsWrittenIsReadTheSame) {
  const Profile profile = measured();
  const std::string text = to_json(profile);
  const Profile again = parse_profile(text, "p.json");
  EXPECT_EQ(to_json(again), text);
  EXPECT_EQ(again.graph_hash, profile.graph_hash);
  EXPECT_EQ(again.load, 4);
  EXPECT_EQ(again.cores, 2);
  EXPECT_EQ(again.reduce_latency_s, 15e-6);
  EXPECT_EQ(again.reduce_bytes_per_s, 0.5e9);
  EXPECT_EQ(again.steps[1].param_s, 2e-6);
  EXPECT_EQ(again.steps[1].bytes_per_s, 8e9);
  ASSERT_EQ(again.entries.size(), 2U);
  EXPECT_EQ(again.entries.at("attention").failure, "out of memory at 8 samples");
  const auto& points = again.entries.at("linear x(16) \"quoted\"").points;
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].backward_s, 1.0 / 3);
  EXPECT_EQ(points[1].samples, 8);
  EXPECT_EQ(points[1].workspace_bytes, 9);
}

TEST(ProfileJson, RefusesAnotherFormatOrVersion) {
  EXPECT_EQ(fault("graphpipe-profile", "graphpipe-plan"),
            "p.json: /format: expected \"graphpipe-profile\", found \"graphpipe-plan\"; this is "
            "not a profile");
  EXPECT_EQ(fault("\"version\": 1", "\"version\": 0"),
            "p.json: /version: expected 1, found 0; profile anew with this program");
}

TEST(ProfileJson, PointsAtWhatIsWrong) {
  EXPECT_EQ(fault("0123456789abcdef", "0123456789ABCDEF"),
            "p.json: /graph_hash: expected 16 lower-case hexadecimal digits, found "
            "\"0123456789ABCDEF\"");
  EXPECT_EQ(fault("\"cores\": 2", "\"cores\": 0"),
            "p.json: /cores: expected a whole number of at least 1, found 0");
  EXPECT_EQ(fault("\"samples\": 8", "\"samples\": 1"),
            "p.json: /entries/linear x(16) \"quoted\"/points/1/samples: F1: sample counts must be "
            "positive and ascend, found 1 after 1");
}

}  // namespace
}  // namespace graphpipe

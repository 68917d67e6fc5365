// What the public optimisers answered on their own inputs; the rest of the table, and the times
// that the searches take, are bench/rivals.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "rivals/recorded_answers.h"
#include "rivals/rival_inputs.h"

namespace graphpipe {
namespace {

// The folder of public inputs; "" where there is none.
std::string shared_data() {
  const char* folder = std::getenv("GP_SHARED_DATA");
  return folder != nullptr && std::filesystem::is_directory(folder) ? folder : "";
}

#define SKIP_WITHOUT_DATA() \
  if (shared_data().empty()) GTEST_SKIP() << "the folder of public inputs is not here"

TEST(Recorded, PipedreamAnswersEveryRow) {
  SKIP_WITHOUT_DATA();
  int rows = 0;
  for (const RecordedPipedream& row : recorded_pipedream()) {
    const PipedreamStateSpace space = recorded_pipedream_states(
        shared_data() + "/pipedream/" + row.profile + ".graph.txt", row.chains);
    const PipedreamPartition partition = recorded_pipedream_partition(space, row);
    ASSERT_TRUE(partition.found) << row.profile << " " << row.label;
    EXPECT_NEAR(partition.bottleneck_s, row.bottleneck_s, row.half_digit_s * 1.001)
        << row.profile << " " << row.label;
    ++rows;
  }
  EXPECT_EQ(rows, 40);
}

TEST(Recorded, PiperAnswersEveryRow) {
  SKIP_WITHOUT_DATA();
  for (const RecordedPiper& row : recorded_piper()) {
    if (!row.in_tests) continue;
    const PiperInstance instance =
        recorded_piper_instance(shared_data() + "/" + row.file + ".json", row.devices,
                                row.memory_bytes, row.bandwidth_bytes_per_s);
    const PiperPartition partition = partition_piper(instance, {});
    if (row.tps_s == 0) {
      EXPECT_EQ(partition.outcome, PiperOutcome::kNoPartition) << row.file << " " << row.devices;
      continue;
    }
    ASSERT_EQ(partition.outcome, PiperOutcome::kFound) << row.file << " " << row.devices;
    EXPECT_NEAR(partition.tps_s / row.tps_s, 1, 1e-3) << row.file << " " << row.devices;
  }
}

TEST(Recorded, PiperGivesUpOnManyBranches) {
  SKIP_WITHOUT_DATA();
  for (const std::string file : {"candle_b7_fc4", "dlrm_d7x4_e7"}) {
    const PiperPartition partition = partition_piper(
        recorded_piper_instance(shared_data() + "/branchy/" + file + ".json", 4), {});
    EXPECT_EQ(partition.outcome, PiperOutcome::kTooManyDownsets);
    EXPECT_EQ(partition.downsets, 40'001U);
  }
}

TEST(Recorded, MaxLoadAnswersEveryRow) {
  SKIP_WITHOUT_DATA();
  for (const RecordedMaxLoad& row : recorded_max_load()) {
    if (!row.in_tests) continue;
    const MaxLoadPartition partition = partition_max_load(
        recorded_max_load_instance(shared_data() + "/dnn-partitioning/" + row.file + ".json", 1e-3),
        {});
    ASSERT_EQ(partition.outcome, MaxLoadOutcome::kFound) << row.file;
    EXPECT_NEAR(partition.load_s * 1e3, row.load_ms, row.half_digit_ms * 1.001) << row.file;
  }
}

}  // namespace
}  // namespace graphpipe

#include "job/status.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "job/test_folder.h"

namespace graphpipe {
namespace {

// Only the counts of stages and edges matter to the text.
Plan two_stages() {
  Plan plan;
  plan.stages.resize(2);
  plan.edges.resize(1);
  plan.edges[0].from = StageId(0);
  plan.edges[0].to = StageId(1);
  return plan;
}

RankStatus at_backward() {
  RankStatus status;
  const std::string phase = "train";
  phase.copy(status.phase, sizeof(status.phase) - 1);
  status.iteration = 12;
  status.position = 40;
  status.action.kind = ActionKind::kBackward;
  status.action.stage = StageId(1);
  status.action.micro_batch = 5;
  status.action.samples = {20, 24};
  return status;
}

TEST(StatusText, NamesIterationStageMicroBatchAndAction) {
  EXPECT_EQ(to_text(at_backward(), two_stages()), "iteration 12, stage 1, micro-batch 5, 1B5");
}

TEST(StatusText, AStepBelongsToNoMicroBatch) {
  RankStatus status = at_backward();
  status.action.kind = ActionKind::kStep;
  EXPECT_EQ(to_text(status, two_stages()),
            "iteration 12, stage 1, " + to_text(status.action, two_stages()));
}

TEST(StatusText, SaysThePhaseWhereThereIsNoAction) {
  RankStatus status;
  status.phase[0] = 's';
  EXPECT_EQ(to_text(status, {}), "s");
}

TEST(StatusText, SurvivesAStageAndAnEdgeThatDoNotExist) {
  RankStatus status = at_backward();
  status.action.stage = StageId(7);
  EXPECT_EQ(to_text(status, two_stages()), "iteration 12, train");
  status = at_backward();
  status.action.edge = EdgeId(9);
  EXPECT_EQ(to_text(status, two_stages()), "iteration 12, train");
}

TEST(StatusText, EndsAPhaseThatWasCutOff) {
  RankStatus status;
  for (char& c : status.phase) c = 'x';
  EXPECT_EQ(to_text(status, {}), std::string(sizeof(status.phase), 'x'));
}

TEST(StatusFileTest, ShowsTheWritersStatusToTheReader) {
  const TestFolder folder;
  const std::string path = status_path(folder.path(), 3);
  const auto written = StatusFile::create(path);
  const auto read = StatusFile::open(path);
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->status().pid, getpid());
  EXPECT_FALSE(is_done(read->status()));

  written->status() = at_backward();
  EXPECT_EQ(to_text(read->status(), two_stages()), "iteration 12, stage 1, micro-batch 5, 1B5");
  written->set_note("linear");
  EXPECT_EQ(to_text(read->status(), two_stages()),
            "iteration 12, stage 1, micro-batch 5, 1B5, linear");
  written->set_note(std::string(1000, 'n'));
  EXPECT_EQ(std::string(read->status().note), std::string(sizeof(RankStatus::note) - 1, 'n'));
  written->set_phase("done");
  EXPECT_TRUE(is_done(read->status()));
}

TEST(StatusFileTest, IsNoneWhereTheRankHasNotMadeIt) {
  const TestFolder folder;
  EXPECT_EQ(StatusFile::open(status_path(folder.path(), 0)), nullptr);
  write_file(status_path(folder.path(), 0), "short");
  EXPECT_EQ(StatusFile::open(status_path(folder.path(), 0)), nullptr);
}

}  // namespace
}  // namespace graphpipe

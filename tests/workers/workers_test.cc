// The worker program by itself, and the job that measures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "base/file.h"
#include "cost/profile_json.h"
#include "graph/builder.h"
#include "job/fault.h"
#include "job/job.h"
#include "job/launcher.h"
#include "job/test_folder.h"

namespace graphpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Output {
  std::string text;  // of both streams
  int exit_code = -1;
};

Output run(const std::string& arguments) {
  Output output;
  FILE* pipe = popen((GP_WORKER " " + arguments + " 2>&1").c_str(), "r");
  std::array<char, 512> chunk;
  while (const std::size_t n = fread(chunk.data(), 1, chunk.size(), pipe)) {
    output.text.append(chunk.data(), n);
  }
  output.exit_code = WEXITSTATUS(pclose(pipe));
  return output;
}

TEST(Worker, SaysItsVersion) {
  const Output output = run("--version");
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.text, StartsWith("graphpipe-worker " GP_VERSION ", libtorch "));
}

TEST(Worker, SaysHowItIsUsed) {
  const Output output = run("--help");
  EXPECT_EQ(output.exit_code, 2);
  EXPECT_THAT(output.text, StartsWith("usage: graphpipe-worker --job FOLDER --rank R\n"));
}

TEST(Worker, RefusesAJobThatIsNotThere) {
  const TestFolder folder;
  const Output output = run("--job " + folder.path() + " --rank 0");
  EXPECT_EQ(output.exit_code, 2);
  EXPECT_THAT(output.text, StartsWith("rank 0 on " + host_name() + " (start): " + folder.path() +
                                      "/job.json: "));
}

TEST(Worker, MeasuresAModelOnSeveralRanks) {
  GraphBuilder g("one linear");
  const TensorId y = g.linear("fc", g.input("x", {8}), 4);
  g.loss(g.mse_loss("loss", y, g.input("target", {4})));
  const Graph graph = std::move(g).build();
  const TestFolder folder;
  Job job;
  job.kind = "profile";
  job.folder = folder.path();
  job.model = "one linear";
  job.profile_samples = {1, 2};
  job.profile_repeats = 1;
  job.profile_load = 2;
  write_job(job);
  write_job_graph(folder.path(), graph);
  const LaunchResult result = run_workers(GP_WORKER, job, 2, [](const std::string&) {});
  ASSERT_EQ(result.first_cause, "");
  const std::string path = profile_result_path(folder.path());
  const Profile profile = parse_profile(read_file(path), path);
  EXPECT_EQ(profile.model, "one linear");
  EXPECT_EQ(profile.graph_hash, graph_hash(graph));
  EXPECT_EQ(profile.load, 2);
  EXPECT_GT(profile.transfer_latency_s, 0);
  ASSERT_EQ(profile.entries.size(), 2);
  for (const auto& [signature, entry] : profile.entries) {
    EXPECT_EQ(entry.points.size(), 2) << signature;
  }

  const Output stranger = run("--job " + folder.path() + " --rank 2");
  EXPECT_EQ(stranger.exit_code, 2);
  EXPECT_THAT(stranger.text,
              HasSubstr("--rank: 2 is not a rank of this job, which has 2 (from 0)"));
}

}  // namespace
}  // namespace graphpipe

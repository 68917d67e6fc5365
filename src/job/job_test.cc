#include "job/job.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "cluster/presets.h"
#include "graph/builder.h"
#include "job/fault.h"
#include "job/test_folder.h"

namespace graphpipe {
namespace {

Job train_job(const std::string& folder) {
  Job job;
  job.kind = "train";
  job.folder = folder;
  job.model = "two-branch:layers=2";
  job.train.data = "movielens";
  job.train.epochs = 7;
  job.train.patience = 2;
  job.train.eval_every = 50;
  job.train.optimizer = OptimizerKind::kAdam;
  job.train.learning_rate = 1e-3;
  job.train.rate_schedule = parse_rate_schedule("cosine:100,10", "");
  job.train.momentum = 0.9;
  job.train.weight_decay = 1e-5;
  job.train.clip = 0.5;
  job.train.accumulate = 4;
  job.train.seed = 0xffffffffffffffffULL;  // beyond what a signed number holds
  job.train.floating = DType::kFloat64;
  job.train.log_every = 10;
  job.train.timeout_s = 5;
  job.train.transport = TransportKind::kGloo;
  job.train.trace_path = "/tmp/trace.json";
  return job;
}

// The message with which the job is refused once `from` in its file is `to`.
std::string refusal(const Job& job, const std::string& from, const std::string& to) {
  write_job(job);
  const std::string path = job.folder + "/job.json";
  std::string text = read_file(path);
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  text.replace(at, from.size(), to);
  write_file(path, text);
  try {
    read_job(job.folder);
  } catch (const InputError& error) {
    std::string message = error.what();
    return message.substr(job.folder.size() + 1);
  }
  return "";
}

TEST(JobFile, ReadsBackATrainingJob) {
  const TestFolder folder;
  const Job job = train_job(folder.path());
  write_job(job);
  EXPECT_EQ(read_job(folder.path()), job);
}

TEST(JobFile, ReadsBackAProfileJob) {
  const TestFolder folder;
  Job job;
  job.kind = "profile";
  job.folder = folder.path();
  job.model = "mmt";
  job.profile_samples = {1, 2, 8};
  job.profile_repeats = 3;
  job.profile_load = 4;
  write_job(job);
  EXPECT_EQ(read_job(folder.path()), job);
}

TEST(JobFile, RefusesAKindThatItDoesNotKnow) {
  const TestFolder folder;
  EXPECT_EQ(refusal(train_job(folder.path()), R"("kind": "train")", R"("kind": "trian")"),
            R"(job.json: /kind: J1: expected train, emulate or profile, found "trian")");
}

TEST(JobFile, RefusesAnotherVersion) {
  const TestFolder folder;
  EXPECT_EQ(refusal(train_job(folder.path()), R"("version": 1)", R"("version": 2)"),
            "job.json: /version: expected 1, which this program writes; build graphpipe and "
            "graphpipe-worker from one source");
}

TEST(JobFile, RefusesAnOptimizerThatItDoesNotKnow) {
  const TestFolder folder;
  EXPECT_EQ(refusal(train_job(folder.path()), R"("adam")", R"("adamw")"),
            R"(job.json: /train/optimizer: expected sgd, sgd-momentum or adam, found "adamw")");
}

TEST(JobFile, RefusesToComputeInWholeNumbers) {
  const TestFolder folder;
  EXPECT_EQ(refusal(train_job(folder.path()), R"("float64")", R"("int64")"),
            R"(job.json: /train/floating: expected float32 or float64, found "int64")");
}

TEST(JobFile, RefusesATransportThatIsUnknown) {
  const TestFolder folder;
  EXPECT_EQ(refusal(train_job(folder.path()), R"("gloo")", R"("pigeon")"),
            R"(job.json: /train/transport: expected auto or gloo, found "pigeon")");
}

TEST(JobFile, RefusesARateScheduleThatIsUnknown) {
  const TestFolder folder;
  EXPECT_EQ(refusal(train_job(folder.path()), R"("cosine:100,10")", R"("cosine:10,100")"),
            "job.json: /train/learning_rate_schedule: WARMUP is 100, expected less than TOTAL, "
            "which is 10");
}

TEST(JobFile, RefusesAStepOfNoMiniBatch) {
  const TestFolder folder;
  EXPECT_EQ(refusal(train_job(folder.path()), R"("accumulate": 4)", R"("accumulate": 0)"),
            "job.json: /train/accumulate: expected a whole number of at least 1, found 0");
}

TEST(LearningRateAt, FollowsTheScheduleOfTheOptions) {
  TrainOptions options;
  options.learning_rate = 2;
  EXPECT_EQ(learning_rate_at(options, 7), 2);
  options.rate_schedule = parse_rate_schedule("step:3,0.5", "");
  EXPECT_EQ(learning_rate_at(options, 7), 0.5);
}

TEST(JobFile, RefusesARunThatWouldNeverEnd) {
  const TestFolder folder;
  Job job = train_job(folder.path());
  job.train.epochs = 0;
  EXPECT_EQ(refusal(job, R"("patience": 2)", R"("patience": 0)"),
            "job.json: /train/patience: J2: a run without iterations and epochs ends when "
            "validation stops improving: expected a patience of at least 1, found 0; give "
            "iterations, epochs or patience");
}

TEST(JobFile, RefusesAProfileOfNothing) {
  const TestFolder folder;
  Job job;
  job.kind = "profile";
  job.folder = folder.path();
  EXPECT_EQ(refusal(job, R"("samples": [])", R"("samples": [])"),
            "job.json: /profile/samples: J3: expected at least one sample count, found none");
}

TEST(JobInputsFiles, ReadBackWhatARankRuns) {
  GraphBuilder builder("one linear");
  const TensorId y = builder.linear("fc", builder.input("x", {4}), 2);
  builder.loss(builder.mse_loss("loss", y, builder.input("target", {2})));
  const Graph graph = std::move(builder).build();
  Plan plan;
  plan.graph_hash = graph_hash(graph);
  plan.mini_batch = 8;
  plan.stages.resize(1);
  plan.stages[0].ops = {OpId(0), OpId(1)};
  plan.stages[0].devices = {DeviceId(0)};
  plan.stages[0].micro_batch = 2;
  plan.stages[0].in_flight_samples = 2;
  const TestFolder folder;
  write_job_inputs(folder.path(), {plan, graph, preset_cluster("summit:1")});
  const JobInputs inputs = read_job_inputs(folder.path());
  EXPECT_EQ(plan_hash(inputs.plan), plan_hash(plan));
  EXPECT_EQ(graph_hash(inputs.graph), graph_hash(graph));
  EXPECT_EQ(inputs.cluster.name, "summit:1");
  Job job;
  job.kind = "train";
  job.profile_load = 3;
  EXPECT_EQ(worker_count(job, inputs.plan), 1);
  job.kind = "profile";
  EXPECT_EQ(worker_count(job, inputs.plan), 3);
}

WorkerFault full_fault() {
  WorkerFault fault;
  fault.kind = FaultKind::kPeerLost;
  fault.rank = 2;
  fault.message = "lost rank 1: \"reset\"\n\tby peer";
  fault.at = "iteration 12, stage 1, micro-batch 5, 1B5";
  fault.iteration = 12;
  fault.stage = 1;
  fault.micro_batch = 5;
  fault.action = "1B5";
  fault.time_s = 1234.5;
  fault.exit_code = 70;
  return fault;
}

TEST(FaultFile, ReadsBackWhatWasWritten) {
  const TestFolder folder;
  write_fault(folder.path(), full_fault());
  EXPECT_EQ(read_fault(folder.path(), 2), full_fault());
  EXPECT_EQ(read_fault(folder.path(), 1), std::nullopt);
}

TEST(FaultFile, TakesAMessageThatIsNoText) {
  const TestFolder folder;
  WorkerFault fault = full_fault();
  fault.message = "bytes \xff\xfe here";
  write_fault(folder.path(), fault);
  EXPECT_EQ(read_fault(folder.path(), 2)->message, "bytes \uFFFD\uFFFD here");
}

TEST(FaultFile, HalfWrittenIsNone) {
  const TestFolder folder;
  write_file(folder.path() + "/fault.2", "{\"kind\": \"error\", \"mess");
  EXPECT_EQ(read_fault(folder.path(), 2), std::nullopt);
}

TEST(FaultText, NamesThePlaceWhereItIsKnown) {
  WorkerFault fault;
  fault.rank = 3;
  fault.message = "out of memory";
  EXPECT_EQ(to_text(fault), "rank 3: out of memory");
  fault.at = "iteration 0, stage 1, micro-batch 5, 1B5";
  EXPECT_EQ(to_text(fault), "rank 3 (iteration 0, stage 1, micro-batch 5, 1B5): out of memory");
}

}  // namespace
}  // namespace graphpipe

// Checkpoints on the disk, without training: what is written is read back, a save that ends at
// any step leaves the one before, and files that are not what was written are refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "graph/builder.h"
#include "job/checkpoint/checkpoint_folder.h"
#include "job/test_folder.h"

namespace graphpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

namespace fs = std::filesystem;

constexpr int kRanks = 3;  // the first stage on two, and the second

Graph chain() {
  GraphBuilder g("chain");
  const TensorId h = g.relu("relu", g.linear("fc0", g.input("x", {4}), 3));
  g.loss(g.mse_loss("loss", g.linear("fc1", h, 2), g.input("target", {2})));
  return std::move(g).build();
}

Plan two_stages(const Graph& graph) {
  Plan plan;
  plan.model = "chain";
  plan.planner = "by hand";
  plan.cluster = "local:3";
  plan.options = "none";
  plan.graph_hash = graph_hash(graph);
  plan.mini_batch = 8;
  plan.stages.resize(2);
  plan.stages[0].ops = {OpId(0), OpId(1)};
  plan.stages[0].devices = {DeviceId(0), DeviceId(1)};
  plan.stages[1].ops = {OpId(2), OpId(3)};
  plan.stages[1].devices = {DeviceId(2)};
  for (Stage& stage : plan.stages) stage.micro_batch = stage.in_flight_samples = 4;
  canonicalise(plan, graph);
  return plan;
}

WeightValues values(const Parameter& param, int version) {
  return {param.dtype, param.shape,
          std::make_shared<const std::string>(static_cast<std::size_t>(param_bytes(param)),
                                              static_cast<char>(version))};
}

// Where files need not go to a disk: what is tested is the order of steps, some hundred times.
fs::path memory_folder() {
  return access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path();
}

class Checkpoint : public ::testing::Test {
 protected:
  Checkpoint() {
    options_.folder = folder_.path() + "/run";
    options_.every = 10;
    train_.data = "synthetic";
    train_.optimizer = OptimizerKind::kAdam;
    train_.learning_rate = 1.0 / 3;
    train_.seed = 0xffffffffffffffffULL;
  }

  CheckpointManifest manifest(std::int64_t iteration) const {
    TrainOptions train = train_;
    train.checkpoint = options_;
    CheckpointManifest made = describe_run(plan_, graph_, train, 100, "synthetic");
    made.progress = {.iteration = iteration,
                     .evaluations = 2,
                     .without_improvement = 1,
                     .best_loss = 0.1,
                     .best_validation = {{"loss", 0.1}},
                     .last_validation = {{"loss", 2.0 / 3}}};
    made.epoch = static_cast<double>(iteration) / 7;
    made.position = iteration % 7;
    return made;
  }

  // What the rank has, whose values tell the iteration.
  RankState state(int rank, int iteration) const {
    RankState made;
    const auto holders = parameter_holders(plan_, graph_);
    for (std::size_t i = 0; i < graph_.params.size(); ++i) {
      if (holders[i].front() != rank) continue;
      const Parameter& param = graph_.params[i];
      made.first.weights[param.name] = values(param, iteration);
      made.first.optimizer[param.name + ".exp_avg"] = values(param, iteration + 1);
      made.first.best[param.name] = values(param, iteration + 2);
    }
    return made;
  }

  // As all ranks of a run, one after another: rank 0 last, for it waits for the others.
  void save(int iteration, const DurableFiles& files = DurableFiles()) const {
    CheckpointFolder first(options_, 0, kRanks, files);
    first.claim();
    const auto forever = [] { return false; };
    for (int rank = kRanks - 1; rank > 0; --rank) {
      CheckpointFolder(options_, rank, kRanks, files)
          .write(manifest(iteration), state(rank, iteration), forever);
    }
    first.write(manifest(iteration), state(0, iteration), forever);
  }

  TrainingState read(const std::string& path) const {
    const std::vector<bool> all(graph_.params.size(), true);
    return read_state(path, read_manifest(path), graph_, all, -1);
  }

  // The iteration of the newest checkpoint, all of whose values are of it.
  std::int64_t newest() const {
    const std::string path = newest_checkpoint(options_.folder, "--resume");
    const std::int64_t iteration = read_manifest(path).progress.iteration;
    const TrainingState found = read(path);
    EXPECT_EQ(found.weights.size(), graph_.params.size());
    EXPECT_EQ(found.optimizer.size(), graph_.params.size());
    for (const auto& [name, weight] : found.weights) {
      EXPECT_EQ(weight.values->front(), static_cast<char>(iteration)) << name;
    }
    for (const auto& [name, weight] : found.optimizer) {
      EXPECT_EQ(weight.values->back(), static_cast<char>(iteration + 1)) << name;
    }
    return iteration;
  }

  std::vector<std::string> names(const std::string& folder) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder)) {
      found.push_back(entry.path().filename().string());
    }
    std::ranges::sort(found);
    return found;
  }

  // What refuses the newest checkpoint; paths from the run's folder on.
  std::string refusal() const {
    try {
      read(newest_checkpoint(options_.folder, "--resume"));
    } catch (const InputError& error) {
      std::string text = error.what();
      for (auto at = text.find(options_.folder); at != std::string::npos;
           at = text.find(options_.folder)) {
        text.erase(at, options_.folder.size() + 1);
      }
      return text;
    }
    return "";
  }

  // The number of the step at which the process ended; 0: it did all of them.
  int save_that_ends_at(int step, int iteration) const {
    const pid_t child = fork();
    if (child == 0) {
      int done = 0;
      // Small chunks: files are cut within.
      const DurableFiles files(
          [&](const std::string&) {
            if (++done == step) _exit(1);
          },
          512);
      save(iteration, files);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) == 1 ? step : 0;
  }

  void end_at_every_step() {
    save(10);
    int step = 1;
    bool published = false;
    while (save_that_ends_at(step, 20) == step) {
      const std::int64_t found = newest();
      EXPECT_TRUE(found == 10 || found == 20) << "after " << step << " steps";
      EXPECT_FALSE(published && found == 10) << "after " << step << " steps";
      published = found == 20;
      if (published) fs::remove_all(options_.folder), save(10), published = false;
      ++step;
    }
    EXPECT_GT(step, 40);
    EXPECT_EQ(newest(), 20);
  }

  const Graph graph_ = chain();
  const Plan plan_ = two_stages(graph_);
  TestFolder folder_{memory_folder()};
  CheckpointOptions options_;
  TrainOptions train_;
};

TEST_F(Checkpoint, IsReadBackAsItWasWritten) {
  save(10);
  const std::string path = newest_checkpoint(options_.folder, "--resume");
  EXPECT_THAT(
      names(path),
      ElementsAre("best-00001-of-00003.safetensors", "best-00003-of-00003.safetensors",
                  "manifest.json", "model-00001-of-00003.safetensors",
                  "model-00003-of-00003.safetensors", "model.safetensors.index.json",
                  "optimizer-00001-of-00003.safetensors", "optimizer-00003-of-00003.safetensors"));
  const CheckpointManifest found = read_manifest(path);
  EXPECT_EQ(found.files.size(), 6);
  CheckpointManifest expected = manifest(10);
  expected.files = found.files;
  EXPECT_EQ(to_json(found, true), to_json(expected, true));
  EXPECT_EQ(found.progress, expected.progress);
  EXPECT_EQ(found.train.learning_rate, 1.0 / 3);
  EXPECT_EQ(found.train.seed, train_.seed);
  EXPECT_EQ(newest(), 10);
  EXPECT_THAT(read_file(path + "/model.safetensors.index.json"),
              HasSubstr(R"("fc1.weight": "model-00003-of-00003.safetensors")"));
}

TEST_F(Checkpoint, KeepsTheNewest) {
  options_.keep = 2;
  for (const int iteration : {10, 20, 30}) save(iteration);
  EXPECT_THAT(names(options_.folder),
              ElementsAre("iteration-000000000020", "iteration-000000000030"));
  options_.keep = 0;  // all
  save(40);
  EXPECT_EQ(names(options_.folder).size(), 3);
}

TEST_F(Checkpoint, ASaveThatEndsAtAnyStepLeavesTheOneBefore) { end_at_every_step(); }

TEST_F(Checkpoint, ASaveStageByStageThatEndsAtAnyStepLeavesTheOneBefore) {
  options_.mode = CheckpointMode::kPerStage;
  end_at_every_step();
}

TEST_F(Checkpoint, StageByStageTheLastThatAllStagesHaveCounts) {
  options_.mode = CheckpointMode::kPerStage;
  save(10);
  for (const int rank : {2, 0}) {  // rank 1 has not come to it
    CheckpointFolder(options_, rank, kRanks).write(manifest(20), state(rank, 20), [] {
      return false;
    });
  }
  EXPECT_EQ(newest(), 10);
  remove_partial_checkpoints(options_.folder);
  EXPECT_THAT(names(options_.folder), ElementsAre("iteration-000000000010"));
  save(20);
  EXPECT_EQ(newest(), 20);
}

TEST_F(Checkpoint, AFolderIsOneRunsAtATime) {
  CheckpointFolder one(options_, 0, kRanks);
  one.claim();
  CheckpointFolder other(options_, 0, kRanks);
  try {
    other.claim();
    ADD_FAILURE() << "two runs have the folder";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), "--checkpoint-dir: " + options_.folder +
                                " is another run's, which goes on; name another folder");
  }
}

TEST_F(Checkpoint, AFullDiskIsAFailedRun) {
  const DurableFiles full([](const std::string& step) {
    if (step.starts_with("write")) throw RunError("cannot " + step + ": No space left on device");
  });
  save(10);
  EXPECT_THROW(save(20, full), RunError);
  EXPECT_EQ(newest(), 10);
}

TEST_F(Checkpoint, RefusesFilesThatAreNotWhatWasWritten) {
  save(10);
  const std::string path = newest_checkpoint(options_.folder, "--resume");
  const auto with = [&](const std::string& name, const std::string& bytes) {
    const std::string file = path + "/" + name;
    const std::string before = read_file(file);
    write_file(file, bytes);
    const std::string text = refusal();
    write_file(file, before);
    return text;
  };
  const std::string model = "model-00001-of-00003.safetensors";
  const std::string whole = read_file(path + "/" + model);
  const std::string manifest_text = read_file(path + "/manifest.json");
  const std::string remedy =
      "; remove this checkpoint's folder to go on from the one before it, if there is one";
  const std::string place = "iteration-000000000010/" + model + ": ";

  EXPECT_EQ(with(model, whole.substr(0, whole.size() - 1)),
            fmt::format("{}expected {} bytes as the manifest says, found {}{}", place, whole.size(),
                        whole.size() - 1, remedy));
  for (const std::size_t at : {std::size_t{0}, std::size_t{9}, whole.size() - 1}) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    EXPECT_THAT(with(model, flipped),
                MatchesRegex("iteration-000000000010/model.*: expected bytes with hash .* as the "
                             "manifest says, found .*: they have changed; remove this .*"));
  }
  for (std::size_t n = 0; n < manifest_text.size(); n += 97) {
    EXPECT_THAT(with("manifest.json", manifest_text.substr(0, n)),
                MatchesRegex("iteration-000000000010/manifest.json:.*"));
  }
  EXPECT_THAT(with("manifest.json", R"({"format": "graphpipe-plan", "version": 1})"),
              HasSubstr("manifest.json: "));
  std::string other = manifest_text;
  other.replace(other.find("\"name\": \"model-0"), 9, "\"name\": \"../");
  EXPECT_THAT(with("manifest.json", other),
              HasSubstr("expected the name of a file in this folder"));
  other = manifest_text;
  other.replace(other.find("\"fc0.bias\""), 10, "\"fc9.bias\"");
  EXPECT_EQ(with("manifest.json", other),
            place + "has other tensors than the manifest says" + remedy);
  fs::remove(path + "/" + model);
  EXPECT_THAT(refusal(), HasSubstr(place + "cannot read: No such file or directory"));
}

TEST_F(Checkpoint, AnotherModelsIsRefusedAndOtherRatesAreNoted) {
  const auto refused = [&](const CheckpointManifest& now) -> std::string {
    try {
      check_resumable(manifest(10), now, "K");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  CheckpointManifest now = manifest(10);
  now.train.learning_rate = 0.5;
  EXPECT_THAT(check_resumable(manifest(10), now, "K"),
              ElementsAre(HasSubstr("goes on with --lr 0.5, the checkpoint was made with 0.3")));
  now.mini_batch = 16;
  EXPECT_EQ(refused(now),
            "K: was made with a mini-batch of 8, and this run has 16; plan with the same "
            "--mini-batch");
  now = manifest(10);
  now.train.optimizer = OptimizerKind::kSgd;
  EXPECT_EQ(refused(now),
            "K: was made with optimizer adam, and this run has sgd; give the same --optimizer and "
            "--momentum");
  now = manifest(10);
  now.graph_hash += 1;
  EXPECT_THAT(refused(now), MatchesRegex("K: is of the model chain, graph .*; plan the model .*"));
  now = manifest(10);
  now.train.seed = 2;
  EXPECT_THAT(refused(now), HasSubstr("give the same --seed"));
}

TEST_F(Checkpoint, WithoutOneThereIsNothingToResume) {
  try {
    newest_checkpoint(options_.folder, "--resume");
    ADD_FAILURE() << "found one";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), "--resume: " + options_.folder +
                                " has no checkpoint to go on from; leave --resume out to start at "
                                "the beginning");
  }
  check_no_checkpoint(options_.folder, "--checkpoint-dir");
  save(10);
  EXPECT_THROW(check_no_checkpoint(options_.folder, "--checkpoint-dir"), InputError);
}

}  // namespace
}  // namespace graphpipe

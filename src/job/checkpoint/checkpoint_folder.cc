#include "job/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "job/checkpoint/checkpoint_names.h"

namespace graphpipe {
namespace {

namespace fs = std::filesystem;

constexpr auto kPollInterval = std::chrono::milliseconds(5);

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  return names;
}

// The number of ranks in "part-00001-of-00004.json"; 0: none.
int ranks_of_part(const std::string& name) {
  constexpr std::string_view kOf = "-of-";
  const auto at = name.find(kOf);
  if (!name.starts_with("part-") || !name.ends_with(".json") || at == std::string::npos) return 0;
  int ranks = 0;
  for (std::size_t i = at + kOf.size(); i < name.size() && name[i] >= '0' && name[i] <= '9'; ++i) {
    ranks = ranks * 10 + (name[i] - '0');
  }
  return name == part_file_name(0, ranks) ? ranks : 0;
}

bool has_all_parts(const std::string& path, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (!fs::exists(path + "/" + part_file_name(rank, ranks))) return false;
  }
  return ranks > 0;
}

bool is_complete(const std::string& path) {
  if (fs::exists(path + "/" + kManifestName)) return true;
  for (const std::string& name : names_in(path)) {
    if (has_all_parts(path, ranks_of_part(name))) return true;
  }
  return false;
}

// Of "iteration-000000000120"; -1: another name.
std::int64_t iteration_of(const std::string& name) {
  if (!name.starts_with(kCheckpointPrefix)) return -1;
  std::int64_t iteration = 0;
  for (const char c : name.substr(kCheckpointPrefix.size())) {
    if (c < '0' || c > '9' || iteration > (std::int64_t{1} << 58)) return -1;
    iteration = iteration * 10 + (c - '0');
  }
  return name == checkpoint_name(iteration) ? iteration : -1;
}

// The folder, taken; -1: another process has it. Let go of when that ends, however it does.
int lock_folder(const std::string& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) {
    throw InputError(folder, fmt::format("cannot hold checkpoints: {}", std::strerror(errno)));
  }
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  close(file);
  return -1;
}

void remove_leftovers(const std::string& folder, const DurableFiles& files) {
  for (const std::string& name : names_in(folder)) {
    if (name.starts_with(kPartialPrefix)) files.remove_all(folder + "/" + name);
  }
  for (const FoundCheckpoint& found : list_checkpoints(folder)) {
    if (!found.complete) files.remove_all(found.path);
  }
}

}  // namespace

std::vector<FoundCheckpoint> list_checkpoints(const std::string& folder) {
  std::vector<FoundCheckpoint> found;
  for (const std::string& name : names_in(folder)) {
    const std::int64_t iteration = iteration_of(name);
    const std::string path = folder + "/" + name;
    if (iteration >= 0) found.push_back({path, iteration, is_complete(path)});
  }
  std::ranges::sort(found, std::ranges::greater(), &FoundCheckpoint::iteration);
  return found;
}

std::string newest_checkpoint(const std::string& folder, const std::string& where) {
  const std::vector<FoundCheckpoint> found = list_checkpoints(folder);
  const auto newest = std::ranges::find_if(found, &FoundCheckpoint::complete);
  if (newest != found.end()) return newest->path;
  throw InputError(where, fmt::format("{} has no {}checkpoint to go on from; leave --resume out to "
                                      "start at the beginning",
                                      folder, found.empty() ? "" : "complete "));
}

void check_no_checkpoint(const std::string& folder, const std::string& where) {
  for (const FoundCheckpoint& found : list_checkpoints(folder)) {
    if (!found.complete) continue;
    throw InputError(where, fmt::format("{} is there already; go on from it with --resume, or name "
                                        "another folder",
                                        found.path));
  }
}

CheckpointFolder::CheckpointFolder(const CheckpointOptions& options, int rank, int ranks,
                                   DurableFiles files)
    : options_(options), rank_(rank), ranks_(ranks), files_(std::move(files)) {}

CheckpointFolder::~CheckpointFolder() {
  if (lock_ >= 0) close(lock_);
}

void CheckpointFolder::claim() {
  std::error_code ignored;  // the lock tells
  fs::create_directories(options_.folder, ignored);
  lock_ = lock_folder(options_.folder);
  if (lock_ < 0) {
    throw InputError("--checkpoint-dir", options_.folder +
                                             " is another run's, which goes on; name "
                                             "another folder");
  }
  remove_leftovers(options_.folder, files_);
}

void CheckpointFolder::write(CheckpointManifest manifest, const RankState& state,
                             const std::function<bool()>& stopped) {
  const bool coordinated = options_.mode == CheckpointMode::kCoordinated;
  const std::string name = checkpoint_name(manifest.progress.iteration);
  const std::string path = options_.folder + "/" + name;
  const std::string partial = options_.folder + "/" + std::string(kPartialPrefix) + name;
  write_files(coordinated ? partial : path, manifest, state);
  if (coordinated) {
    if (rank_ != 0 || !wait_for_parts(partial, stopped)) return;
    publish(partial, path);
  }
  prune();
}

void CheckpointFolder::write_files(const std::string& into, CheckpointManifest& manifest,
                                   const RankState& state) {
  files_.make_folder(into);
  const auto add = [&](const char* kind, CheckpointPart part, const Weights& weights) {
    if (weights.empty()) return;
    const std::string bytes = to_safetensors(weights);
    CheckpointFile file{.name = shard_name(kind, rank_, ranks_, ".safetensors"),
                        .part = part,
                        .rank = rank_,
                        .bytes = static_cast<std::int64_t>(bytes.size()),
                        .hash = hash_bytes(bytes),
                        .tensors = {}};
    for (const auto& [name, values] : weights) file.tensors.push_back(name);
    files_.write(into + "/" + file.name, bytes);
    manifest.files.push_back(std::move(file));
  };
  add("model", CheckpointPart::kWeights, state.first.weights);
  add("optimizer", CheckpointPart::kOptimizer, state.first.optimizer);
  add("best", CheckpointPart::kBest, state.first.best);
  add("replica", CheckpointPart::kReplica, state.replica.weights);
  add("replica-best", CheckpointPart::kReplicaBest, state.replica.best);
  files_.replace(into + "/" + part_file_name(rank_, ranks_), to_json(manifest, false));
}

bool CheckpointFolder::wait_for_parts(const std::string& in,
                                      const std::function<bool()>& stopped) const {
  while (!has_all_parts(in, ranks_)) {
    if (stopped()) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

void CheckpointFolder::publish(const std::string& partial, const std::string& path) {
  const CheckpointManifest whole = read_manifest(partial);
  files_.write(partial + "/" + kWeightIndexName, weight_index_json(whole));
  files_.write(partial + "/" + kManifestName, to_json(whole, true));
  for (int rank = 0; rank < ranks_; ++rank) {
    files_.remove_all(partial + "/" + part_file_name(rank, ranks_));
  }
  files_.sync_folder(partial);
  files_.rename(partial, path);
}

// Out of the way at once, and then removed: a run may end in between. Ranks that save by
// themselves may come to one checkpoint at the same time.
void CheckpointFolder::prune() {
  if (options_.keep == 0) return;
  std::int64_t newer = 0;
  for (const FoundCheckpoint& found : list_checkpoints(options_.folder)) {
    if (newer >= options_.keep) {
      const std::string away = fmt::format("{}/{}old-{}-{}", options_.folder, kPartialPrefix, rank_,
                                           checkpoint_name(found.iteration));
      try {
        files_.rename(found.path, away);
      } catch (const RunError&) {
        if (fs::exists(found.path)) throw;
        continue;  // another rank was first
      }
      files_.remove_all(away);
    }
    newer += found.complete ? 1 : 0;
  }
}

void remove_partial_checkpoints(const std::string& folder) {
  try {
    const int lock = lock_folder(folder);
    if (lock < 0) return;
    remove_leftovers(folder, DurableFiles());
    close(lock);
  } catch (const InputError&) {
    return;  // it is not there
  } catch (const RunError&) {
    return;  // what is left is of no account, and goes when the run is resumed
  }
}

}  // namespace graphpipe

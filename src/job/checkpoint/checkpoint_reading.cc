#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "job/checkpoint/checkpoint_folder.h"
#include "job/checkpoint/checkpoint_names.h"

namespace graphpipe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy =
    "remove this checkpoint's folder to go on from the one before it, if there is one";

// One manifest of the parts of all ranks.
CheckpointManifest merge_parts(const std::string& checkpoint, int ranks) {
  CheckpointManifest whole;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = checkpoint + "/" + part_file_name(rank, ranks);
    CheckpointManifest part = parse_checkpoint(read_file(path), path, false);
    std::vector<CheckpointFile> files = std::move(part.files);
    part.files.clear();
    if (rank == 0) {
      whole = std::move(part);
    } else if (const auto found = std::exchange(whole.files, {});
               to_json(part, false) != to_json(whole, false)) {
      throw InputError(
          path, fmt::format("is of another run than {}; {}", part_file_name(0, ranks), kRemedy));
    } else {
      whole.files = found;
    }
    whole.files.insert(whole.files.end(), files.begin(), files.end());
  }
  return whole;
}

int ranks_of_parts(const std::string& checkpoint) {
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("part-00001-of-") || !name.ends_with(".json")) continue;
    const std::string path = entry.path().string();
    return parse_checkpoint(read_file(path), path, false).ranks;
  }
  throw InputError(checkpoint,
                   fmt::format("has neither {} nor the parts of one; {}", kManifestName, kRemedy));
}

Weights read_checked(const std::string& checkpoint, const CheckpointFile& file) {
  const std::string path = checkpoint + "/" + file.name;
  const std::string bytes = read_file(path);
  if (bytes.size() != static_cast<std::size_t>(file.bytes)) {
    throw InputError(path, fmt::format("expected {} bytes as the manifest says, found {}; {}",
                                       file.bytes, bytes.size(), kRemedy));
  }
  if (hash_bytes(bytes) != file.hash) {
    throw InputError(path,
                     fmt::format("expected bytes with hash {} as the manifest says, found "
                                 "{}: they have changed; {}",
                                 hash_text(file.hash), hash_text(hash_bytes(bytes)), kRemedy));
  }
  Weights weights = parse_safetensors(bytes, path);
  std::vector<std::string> names;
  for (const auto& [name, values] : weights) names.push_back(name);
  if (names == file.tensors) return weights;
  throw InputError(path, fmt::format("has other tensors than the manifest says; {}", kRemedy));
}

// "fc.weight" of "fc.weight.exp_avg".
std::string_view param_of(std::string_view state) { return state.substr(0, state.rfind('.')); }

class StateReader {
 public:
  StateReader(const std::string& checkpoint, const CheckpointManifest& manifest, const Graph& graph,
              const std::vector<bool>& wanted)
      : checkpoint_(checkpoint), manifest_(manifest) {
    for (std::size_t i = 0; i < graph.params.size(); ++i) {
      if (wanted[i]) params_.emplace(graph.params[i].name, &graph.params[i]);
    }
  }

  // Of all files of this kind (and rank, unless -1) what is wanted.
  Weights read(CheckpointPart part, int rank) const {
    Weights found;
    for (const CheckpointFile& file : manifest_.files) {
      if (file.part != part || (rank >= 0 && file.rank != rank) || !has_wanted(file)) continue;
      for (auto& [name, values] : read_checked(checkpoint_, file)) {
        const auto param = params_.find(key(part, name));
        if (param == params_.end()) continue;
        check(file, name, values, *param->second);
        found[name] = values;
      }
    }
    return found;
  }

  void require_all(const Weights& weights) const {
    for (const auto& [name, param] : params_) {
      if (weights.contains(name)) continue;
      throw InputError(checkpoint_,
                       fmt::format("has no values of parameter \"{}\"; {}", name, kRemedy));
    }
  }

 private:
  static std::string_view key(CheckpointPart part, std::string_view name) {
    return part == CheckpointPart::kOptimizer ? param_of(name) : name;
  }
  bool has_wanted(const CheckpointFile& file) const {
    return std::ranges::any_of(file.tensors, [&](const std::string& name) {
      return params_.contains(key(file.part, name));
    });
  }
  // A count of steps is one number, all else is as the parameter.
  void check(const CheckpointFile& file, const std::string& name, const WeightValues& values,
             const Parameter& param) const {
    const bool is_count = file.part == CheckpointPart::kOptimizer && values.shape.empty() &&
                          values.dtype == DType::kInt64;
    if (is_count || (values.dtype == param.dtype && values.shape == param.shape)) return;
    throw InputError(checkpoint_ + "/" + file.name,
                     fmt::format("\"{}\" is {} ({}), expected {} ({})", name,
                                 dtype_name(values.dtype), fmt::join(values.shape, ", "),
                                 dtype_name(param.dtype), fmt::join(param.shape, ", ")));
  }

  const std::string& checkpoint_;
  const CheckpointManifest& manifest_;
  std::map<std::string, const Parameter*, std::less<>> params_;
};

void replace_by(Weights& weights, const Weights& own) {
  for (const auto& [name, values] : own) weights[name] = values;
}

}  // namespace

CheckpointManifest read_manifest(const std::string& checkpoint) {
  if (!fs::is_directory(checkpoint)) {
    throw InputError(checkpoint, "expected a checkpoint's folder, found none");
  }
  const std::string path = checkpoint + "/" + kManifestName;
  if (fs::exists(path)) return parse_checkpoint(read_file(path), path, true);
  return merge_parts(checkpoint, ranks_of_parts(checkpoint));
}

TrainingState read_state(const std::string& checkpoint, const CheckpointManifest& manifest,
                         const Graph& graph, const std::vector<bool>& wanted, int replica_of_rank) {
  const StateReader reader(checkpoint, manifest, graph, wanted);
  TrainingState state;
  state.weights = reader.read(CheckpointPart::kWeights, -1);
  reader.require_all(state.weights);
  state.optimizer = reader.read(CheckpointPart::kOptimizer, -1);
  state.best = reader.read(CheckpointPart::kBest, -1);
  if (!state.best.empty()) reader.require_all(state.best);
  if (replica_of_rank >= 0) {
    replace_by(state.weights, reader.read(CheckpointPart::kReplica, replica_of_rank));
    replace_by(state.best, reader.read(CheckpointPart::kReplicaBest, replica_of_rank));
  }
  return state;
}

}  // namespace graphpipe

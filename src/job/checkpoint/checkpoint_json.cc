#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "base/hash.h"
#include "base/json_reader.h"
#include "job/checkpoint/checkpoint.h"
#include "job/fields_json.h"

namespace graphpipe {
namespace {

constexpr int kManifestVersion = 1;
constexpr std::string_view kWhole = "graphpipe-checkpoint";
constexpr std::string_view kPart = "graphpipe-checkpoint-part";

constexpr std::array<std::pair<CheckpointPart, std::string_view>, 5> kParts{
    {{CheckpointPart::kWeights, "weights"},
     {CheckpointPart::kOptimizer, "optimizer"},
     {CheckpointPart::kBest, "best"},
     {CheckpointPart::kReplica, "replica"},
     {CheckpointPart::kReplicaBest, "replica-best"}}};

std::string_view part_name(CheckpointPart part) {
  for (const auto& [known, name] : kParts) {
    if (known == part) return name;
  }
  GP_CHECK(false, "part {}", static_cast<int>(part));
}

CheckpointPart read_part(const JsonReader& json) {
  const std::string name = json.string();
  for (const auto& [part, known] : kParts) {
    if (known == name) return part;
  }
  json.fail(fmt::format("expected weights, optimizer, best, replica or replica-best, found \"{}\"",
                        name));
}

std::map<std::string, double> read_numbers(const JsonReader& json) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : json.members()) numbers[name] = value.number();
  return numbers;
}

Json progress_json(const TrainProgress& progress) {
  return {{"evaluations", progress.evaluations},
          {"without_improvement", progress.without_improvement},
          {"best_loss", progress.best_loss ? Json(*progress.best_loss) : Json(nullptr)},
          {"best_validation", numbers_json(progress.best_validation)},
          {"last_validation", numbers_json(progress.last_validation)},
          {"skipped", progress.skipped}};
}

TrainProgress read_progress(const JsonReader& json) {
  json.only({"evaluations", "without_improvement", "best_loss", "best_validation",
             "last_validation", "skipped"});
  TrainProgress progress;
  progress.evaluations = json["evaluations"].integer_at_least(0);
  progress.without_improvement = json["without_improvement"].integer_at_least(0);
  const JsonReader best = json["best_loss"];
  if (!best.value().is_null()) progress.best_loss = best.number();
  progress.best_validation = read_numbers(json["best_validation"]);
  progress.last_validation = read_numbers(json["last_validation"]);
  progress.skipped = json["skipped"].integer_at_least(0);
  return progress;
}

Json optimizer_json(const TrainOptions& train) {
  return {{"kind", optimizer_name(train.optimizer)},
          {"learning_rate", train.learning_rate},
          {"learning_rate_schedule", to_text(train.rate_schedule)},
          {"momentum", train.momentum},
          {"weight_decay", train.weight_decay},
          {"clip", train.clip},
          {"accumulate", train.accumulate}};
}

void read_optimizer_options(const JsonReader& json, TrainOptions& train) {
  json.only({"kind", "learning_rate", "learning_rate_schedule", "momentum", "weight_decay", "clip",
             "accumulate"});
  train.optimizer = read_optimizer(json["kind"]);
  train.learning_rate = json["learning_rate"].number_at_least(0);
  const JsonReader schedule = json["learning_rate_schedule"];
  train.rate_schedule = parse_rate_schedule(schedule.string(), schedule.where());
  train.momentum = json["momentum"].number_at_least(0);
  train.weight_decay = json["weight_decay"].number_at_least(0);
  train.clip = json["clip"].number_at_least(0);
  train.accumulate = json["accumulate"].integer_at_least(1);
}

Json file_json(const CheckpointFile& file) {
  return {{"name", file.name},   {"part", part_name(file.part)}, {"rank", file.rank},
          {"bytes", file.bytes}, {"hash", hash_text(file.hash)}, {"tensors", file.tensors}};
}

CheckpointFile read_file_entry(const JsonReader& json) {
  json.only({"name", "part", "rank", "bytes", "hash", "tensors"});
  CheckpointFile file;
  file.name = json["name"].string();
  if (file.name.empty() || file.name.find('/') != std::string::npos) {
    json["name"].fail(
        fmt::format("expected the name of a file in this folder, found \"{}\"", file.name));
  }
  file.part = read_part(json["part"]);
  file.rank = json["rank"].int_at_least(0);
  file.bytes = json["bytes"].integer_at_least(0);
  file.hash = json["hash"].hash();
  for (const JsonReader& name : json["tensors"].items()) file.tensors.push_back(name.string());
  return file;
}

CheckpointMode read_mode(const JsonReader& json) {
  const auto mode = parse_checkpoint_mode(json.string());
  if (!mode) json.fail("expected coordinated or per-stage");
  return *mode;
}

}  // namespace

std::string to_json(const CheckpointManifest& manifest, bool whole) {
  const TrainOptions& train = manifest.train;
  Json json = {{"format", whole ? kWhole : kPart},
               {"version", kManifestVersion},
               {"mode", checkpoint_mode_name(manifest.mode)},
               {"iteration", manifest.progress.iteration},
               {"epoch", manifest.epoch},
               {"position", manifest.position},
               {"seed", static_cast<std::int64_t>(train.seed)},
               {"floating", dtype_name(train.floating)},
               {"data", {{"name", manifest.data}, {"samples", manifest.samples}}},
               {"model", manifest.model},
               {"graph_hash", hash_text(manifest.graph_hash)},
               {"mini_batch", manifest.mini_batch},
               {"ranks", manifest.ranks},
               {"optimizer", optimizer_json(train)},
               {"progress", progress_json(manifest.progress)},
               {"files", Json::array()}};
  for (const CheckpointFile& file : manifest.files) json["files"].push_back(file_json(file));
  json["plan_hash"] = hash_text(manifest.plan_hash);
  json["plan"] = parse_json(manifest.plan, "plan");
  return json.dump(1) + "\n";
}

CheckpointManifest parse_checkpoint(std::string_view text, const std::string& file, bool whole) {
  const Json document = parse_json(text, file);
  const JsonReader json(document, file);
  json.expect_format(whole ? kWhole : kPart, kManifestVersion, "a checkpoint",
                     "resume with the program that wrote it");
  json.only({"format", "version", "mode", "iteration", "epoch", "position", "seed", "floating",
             "data", "model", "graph_hash", "mini_batch", "ranks", "optimizer", "progress", "files",
             "plan_hash", "plan"});
  CheckpointManifest manifest;
  manifest.mode = read_mode(json["mode"]);
  manifest.progress = read_progress(json["progress"]);
  manifest.progress.iteration = json["iteration"].integer_at_least(0);
  manifest.epoch = json["epoch"].number_at_least(0);
  manifest.position = json["position"].integer_at_least(0);
  manifest.train.seed = static_cast<std::uint64_t>(json["seed"].integer());
  manifest.train.floating = read_floating(json["floating"]);
  json["data"].only({"name", "samples"});
  manifest.data = json["data"]["name"].string();
  manifest.samples = json["data"]["samples"].integer_at_least(0);
  manifest.model = json["model"].string();
  manifest.graph_hash = json["graph_hash"].hash();
  manifest.mini_batch = json["mini_batch"].integer_at_least(1);
  manifest.ranks = json["ranks"].int_at_least(1);
  read_optimizer_options(json["optimizer"], manifest.train);
  for (const JsonReader& entry : json["files"].items()) {
    manifest.files.push_back(read_file_entry(entry));
  }
  manifest.plan_hash = json["plan_hash"].hash();
  manifest.plan = json["plan"].value().dump(1);
  return manifest;
}

std::string weight_index_json(const CheckpointManifest& manifest) {
  Json json = {{"metadata", {{"total_size", 0}}}, {"weight_map", Json::object()}};
  std::int64_t bytes = 0;
  std::map<std::string, std::string> files;
  for (const CheckpointFile& file : manifest.files) {
    if (file.part != CheckpointPart::kWeights) continue;
    bytes += file.bytes;
    for (const std::string& tensor : file.tensors) files[tensor] = file.name;
  }
  for (const auto& [tensor, file] : files) json["weight_map"][tensor] = file;
  json["metadata"]["total_size"] = bytes;
  return json.dump(1) + "\n";
}

}  // namespace graphpipe

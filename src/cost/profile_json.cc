#include "cost/profile_json.h"

#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/json_reader.h"

namespace graphpipe {
namespace {

constexpr std::string_view kFormat = "graphpipe-profile";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMostRanks = 1'000'000;

int read_count(const JsonReader& json) {
  const std::int64_t n = json.integer_at_least(1);
  if (n > kMostRanks) json.fail(fmt::format("expected at most {}, found {}", kMostRanks, n));
  return static_cast<int>(n);
}

ProfilePoint read_point(const JsonReader& json) {
  json.only({"samples", "forward_s", "backward_s", "saved_bytes", "workspace_bytes"});
  return {.samples = json["samples"].integer(),
          .forward_s = json["forward_s"].number(),
          .backward_s = json["backward_s"].number(),
          .saved_bytes = json["saved_bytes"].integer(),
          .workspace_bytes = json["workspace_bytes"].integer()};
}

ProfileEntry read_entry(const JsonReader& json) {
  json.only({"points", "failure", "calibration"});
  ProfileEntry entry;
  if (json.has("points")) {
    for (const JsonReader& point : json["points"].items()) {
      entry.points.push_back(read_point(point));
    }
  }
  if (json.has("failure")) entry.failure = json["failure"].string();
  if (json.has("calibration")) entry.calibration = json["calibration"].number();
  return entry;
}

void read_steps(const JsonReader& json, Profile& profile) {
  const std::vector<JsonReader> lines = json.items();
  if (lines.size() != profile.steps.size()) {
    json.fail(fmt::format("expected {} lines, found {}", profile.steps.size(), lines.size()));
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    lines[i].only({"param_s", "bytes_per_s"});
    profile.steps[i] = {lines[i]["param_s"].number(), lines[i]["bytes_per_s"].number()};
  }
}

Json written(const ProfileEntry& entry) {
  Json json = Json::object();
  if (!entry.failure.empty()) json["failure"] = entry.failure;
  if (entry.calibration != 1) json["calibration"] = entry.calibration;
  for (const ProfilePoint& point : entry.points) {
    json["points"].push_back({{"samples", point.samples},
                              {"forward_s", point.forward_s},
                              {"backward_s", point.backward_s},
                              {"saved_bytes", point.saved_bytes},
                              {"workspace_bytes", point.workspace_bytes}});
  }
  return json;
}

}  // namespace

Profile parse_profile(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  const JsonReader json(document, file);
  json.only({"format", "version", "model", "graph_hash", "device", "library", "load", "cores",
             "action_overhead_s", "transfer_latency_s", "transfer_bytes_per_s", "transfer_residual",
             "reduce_latency_s", "reduce_bytes_per_s", "steps", "entries"});
  json.expect_format(kFormat, kVersion, "a profile", "profile anew with this program");
  Profile profile;
  profile.model = json["model"].string();
  profile.graph_hash = json["graph_hash"].hash();
  profile.device = json["device"].string();
  profile.library = json["library"].string();
  profile.load = read_count(json["load"]);
  profile.cores = read_count(json["cores"]);
  profile.action_overhead_s = json["action_overhead_s"].number();
  profile.transfer_latency_s = json["transfer_latency_s"].number();
  profile.transfer_bytes_per_s = json["transfer_bytes_per_s"].number();
  if (json.has("transfer_residual")) {
    profile.transfer_residual = json["transfer_residual"].number();
  }
  if (json.has("reduce_bytes_per_s")) {
    profile.reduce_latency_s = json["reduce_latency_s"].number();
    profile.reduce_bytes_per_s = json["reduce_bytes_per_s"].number();
  }
  if (json.has("steps")) read_steps(json["steps"], profile);
  for (const auto& [signature, entry] : json["entries"].members()) {
    profile.entries.emplace(signature, read_entry(entry));
  }
  validate(profile, file);
  return profile;
}

std::string to_json(const Profile& profile) {
  Json entries = Json::object();
  for (const auto& [signature, entry] : profile.entries) entries[signature] = written(entry);
  Json steps = Json::array();
  for (const StepLine& line : profile.steps) {
    steps.push_back({{"param_s", line.param_s}, {"bytes_per_s", line.bytes_per_s}});
  }
  const Json document = {{"format", kFormat},
                         {"version", kVersion},
                         {"model", profile.model},
                         {"graph_hash", hash_text(profile.graph_hash)},
                         {"device", profile.device},
                         {"library", profile.library},
                         {"load", profile.load},
                         {"cores", profile.cores},
                         {"action_overhead_s", profile.action_overhead_s},
                         {"transfer_latency_s", profile.transfer_latency_s},
                         {"transfer_bytes_per_s", profile.transfer_bytes_per_s},
                         {"transfer_residual", profile.transfer_residual},
                         {"reduce_latency_s", profile.reduce_latency_s},
                         {"reduce_bytes_per_s", profile.reduce_bytes_per_s},
                         {"steps", std::move(steps)},
                         {"entries", std::move(entries)}};
  return document.dump(2) + "\n";
}

}  // namespace graphpipe

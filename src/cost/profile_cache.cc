#include "cost/profile_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "cost/profile_json.h"
#include "graph/op_kinds.h"

namespace graphpipe {
namespace {

bool is_custom(const std::string& signature) {
  return signature.starts_with(op_kind_name(OpKind::kCustom));
}

bool same_machine(const Profile& a, const Profile& b) {
  return a.device == b.device && a.library == b.library && a.load == b.load && a.cores == b.cores;
}

void add_points(ProfileEntry& entry, const std::vector<ProfilePoint>& points) {
  for (const ProfilePoint& point : points) {
    const auto at =
        std::ranges::lower_bound(entry.points, point.samples, {}, &ProfilePoint::samples);
    if (at != entry.points.end() && at->samples == point.samples) {
      *at = point;
    } else {
      entry.points.insert(at, point);
    }
  }
}

}  // namespace

std::string profile_cache_path(const std::string& folder, const Profile& machine) {
  std::uint64_t key = hash_bytes(GP_VERSION);
  for (const std::string* text : {&machine.device, &machine.library}) {
    key = combine_hash(key, hash_bytes(*text));
  }
  for (const int number : {machine.load, machine.cores}) {
    key = combine_hash(key, static_cast<std::uint64_t>(number));
  }
  return fmt::format("{}/{}.profile.json", folder, hash_text(key));
}

Profile load_profile_cache(const std::string& folder, const Profile& machine) {
  Profile known = machine;
  known.entries.clear();
  const std::string path = profile_cache_path(folder, machine);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return known;
  try {
    const Profile stored = parse_profile(read_file(path), path);
    if (same_machine(stored, machine)) known.entries = stored.entries;
  } catch (const InputError&) {
    // A cache is never the reason not to measure.
  }
  return known;
}

void store_profile_cache(const std::string& folder, const Profile& profile) {
  Profile known = load_profile_cache(folder, profile);
  known.model = "";
  known.graph_hash = 0;
  for (const auto& [signature, entry] : profile.entries) {
    if (entry.points.empty() || is_custom(signature)) continue;
    add_points(known.entries[signature], entry.points);
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw InputError(folder, "cannot make the folder: " + error.message());
  write_file(profile_cache_path(folder, profile), to_json(known));
}

}  // namespace graphpipe

// How the files of a checkpoint are called.

#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace graphpipe {

inline constexpr std::string_view kCheckpointPrefix = "iteration-";
inline constexpr std::string_view kPartialPrefix = "partial-";
inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kWeightIndexName = "model.safetensors.index.json";

// As the ranks of a sharded model are numbered elsewhere: from 1.
inline std::string shard_name(std::string_view kind, int rank, int ranks, std::string_view ending) {
  return fmt::format("{}-{:05}-of-{:05}{}", kind, rank + 1, ranks, ending);
}
inline std::string checkpoint_name(std::int64_t iteration) {
  return fmt::format("{}{:012}", kCheckpointPrefix, iteration);
}
inline std::string part_file_name(int rank, int ranks) {
  return shard_name("part", rank, ranks, ".json");
}

}  // namespace graphpipe

// The file form of a data set's description: manifest.json, described in docs/formats.md.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

struct ManifestField {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // of one sample
  std::string file;                 // in the manifest's folder
  std::int64_t bytes_per_sample() const { return dtype_bytes(dtype) * element_count(shape); }
};

// How many samples are for what, in the order of the files.
struct ManifestSplit {
  std::int64_t train = 0;
  std::int64_t validation = 0;
  std::int64_t test = 0;
};

// Invariants, checked by parse_manifest():
//   there is at least one sample and one field; names of fields are not empty and unique;
//   sizes are positive; files are plain names, without a folder; a field has at most
//   2^40 bytes; each part of a split has a sample, and each sample is in one
struct Manifest {
  std::string name;
  std::int64_t samples = 0;
  std::optional<ManifestSplit> split = std::nullopt;  // without: drawn by seed
  std::vector<ManifestField> fields;
};

// Throws InputError("FILE: /fields/2/dtype", ...).
Manifest parse_manifest(std::string_view json, const std::string& file);
std::string to_json(const Manifest& manifest);  // parse_manifest(to_json(m)) equals m

}  // namespace graphpipe

// Data sets: samples that every rank reads by id. Without libtorch.
//
// A data set is code of one's own (derive from Dataset), or a folder with manifest.json and one
// little-endian, row-major binary file a field (docs/formats.md). Fields are called as the graph's
// inputs; files are mapped, not read.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

struct Field {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // of one sample
  const std::byte* data =
      nullptr;  // samples() * bytes_per_sample; null: Dataset::read() makes them
  std::int64_t bytes_per_sample() const;
};

// Which samples are for what, by id; the parts have no sample in common.
struct Split {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> validation;
  std::vector<std::int64_t> test;
  bool operator==(const Split&) const = default;
};

// To load samples by code of one's own, derive from it: fields() without data, and read().
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::string name() const = 0;
  virtual std::int64_t samples() const = 0;
  virtual const std::vector<Field>& fields() const = 0;
  // Writes the field's samples with these ids one after another, ids.size() *
  // bytes_per_sample() bytes. Called by several ranks at a time, each for the inputs that it
  // needs; the same id gives the same numbers whoever asks, and however often. Only for fields
  // without data.
  virtual void read(const Field& field, std::span<const std::int64_t> ids, std::byte* out) const;
  // Where it is given and not drawn by seed: a published one, say. The same however often.
  virtual std::optional<Split> split() const { return std::nullopt; }
  const Field* field(const std::string& name) const;  // null: not there
};

// Maps the folder's files. Throws InputError("FOLDER/manifest.json: /fields/2", ...).
std::unique_ptr<Dataset> open_dataset(const std::string& folder);

// Writes a folder that open_dataset() opens (making it where it is not there), the
// manifest last. Throws InputError(PATH, ...) where a file cannot be written. Requires:
// the fields' names will do as names of files, and they have data; a split of the set's own
// is in the order of the samples.
void write_dataset(const Dataset& dataset, const std::string& folder);

// Random samples that fit the graph's inputs: floats normal, integers below what their
// consumers allow (table entries, classes), by seed.
std::unique_ptr<Dataset> synthetic_dataset(const Graph& graph, std::int64_t samples,
                                           std::uint64_t seed);

// The --data argument: a built-in name ("movielens", "digits", "synthetic"), looked up in
// $GRAPHPIPE_DATA or ~/.cache/graphpipe/data, or a folder. Throws InputError("--data", ...)
// that says how to fetch what is missing (tools/fetch_data.sh NAME), and names inputs of
// the graph that no field serves, with dtype and shape expected and found.
std::unique_ptr<Dataset> load_dataset(const std::string& argument, const Graph& graph,
                                      std::uint64_t seed);

// 80 / 10 / 10 by seed. Requires: at least 10 samples.
Split split_dataset(std::int64_t samples, std::uint64_t seed);
// The set's own split, or the one above. Throws InputError("data set NAME", ...) where a part has
// no sample, or there are fewer than 10 to be split.
Split split_dataset(const Dataset& dataset, std::uint64_t seed);

}  // namespace graphpipe

// The --data argument: which data set is meant, and whether the graph can read it.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/input_range.h"

namespace graphpipe {
namespace {

const std::string kFlag = "--data";
const std::vector<std::string> kFetched{"digits", "movielens"};

// Of the set "synthetic": as many as train for a while, and no more than are quickly made.
constexpr std::int64_t kSyntheticSamples = 8192;
constexpr std::int64_t kSyntheticBytes = std::int64_t{64} << 20;

std::string type_text(DType dtype, const std::vector<std::int64_t>& shape) {
  return fmt::format("{} ({})", dtype_name(dtype), fmt::join(shape, ", "));
}

std::unique_ptr<Dataset> make_synthetic(const Graph& graph, std::uint64_t seed) {
  std::int64_t bytes = 1;
  for (const TensorId input : graph.inputs) bytes += tensor_bytes(graph.tensor(input), 1);
  return synthetic_dataset(
      graph, std::clamp(kSyntheticBytes / bytes, std::int64_t{10}, kSyntheticSamples), seed);
}

// Where tools/fetch_data.sh puts data sets.
std::string data_root() {
  if (const char* root = std::getenv("GRAPHPIPE_DATA"); root && *root) return root;
  const char* home = std::getenv("HOME");
  return std::string(home ? home : "") + "/.cache/graphpipe/data";
}

std::unique_ptr<Dataset> open_argument(const std::string& argument) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (std::find(kFetched.begin(), kFetched.end(), argument) != kFetched.end()) {
    const std::string folder = data_root() + "/" + argument;
    if (fs::exists(folder + "/manifest.json", ignored)) return open_dataset(folder);
    throw InputError(kFlag, fmt::format("the data set {} is not at {}; fetch it with "
                                        "tools/fetch_data.sh {}",
                                        argument, folder, argument));
  }
  if (fs::is_directory(argument, ignored)) return open_dataset(argument);
  const std::vector<std::string> known{"digits", "movielens", "synthetic"};
  const std::string near = nearest_word(argument, known);
  throw InputError(kFlag, fmt::format("\"{}\" is neither a built-in data set ({}) nor a folder{}",
                                      argument, fmt::join(known, ", "),
                                      near.empty() ? "" : "; did you mean " + near + "?"));
}

bool fits(const Tensor& input, const Field& field) {
  const bool same_type =
      field.dtype == input.dtype || (is_floating(field.dtype) && is_floating(input.dtype));
  return same_type && field.shape == input.shape;
}

void require_fields(const Dataset& dataset, const Graph& graph) {
  std::vector<std::string> misfits;
  for (const TensorId id : graph.inputs) {
    const Tensor& input = graph.tensor(id);
    const std::string expected = input.name + " " + type_text(input.dtype, input.shape);
    const Field* field = dataset.field(input.name);
    if (!input.batched) {
      misfits.push_back(expected + ", one tensor for all samples");
    } else if (!field) {
      misfits.push_back(expected + ", found no such field");
    } else if (!fits(input, *field)) {
      misfits.push_back(expected + ", found " + type_text(field->dtype, field->shape));
    }
  }
  if (misfits.empty()) return;
  std::vector<std::string> fields;
  for (const Field& field : dataset.fields()) {
    fields.push_back(field.name + " " + type_text(field.dtype, field.shape));
  }
  throw InputError(
      kFlag,
      fmt::format("the data set {} does not serve these inputs of {}: {}; its fields "
                  "are {}",
                  dataset.name(), graph.name, fmt::join(misfits, "; "), fmt::join(fields, ", ")));
}

// An id beyond a table's end would otherwise end the run at some later iteration.
void require_range(const Dataset& dataset, const Graph& graph, TensorId input) {
  const InputRange range = input_range(graph, input);
  if (range.op.empty()) return;
  const Field& field = *dataset.field(graph.tensor(input).name);
  const std::int64_t per_sample = element_count(field.shape);
  for (std::int64_t i = 0; i < dataset.samples() * per_sample; ++i) {
    std::int64_t value = 0;
    std::memcpy(&value, field.data + i * static_cast<std::int64_t>(sizeof value), sizeof value);
    if (value >= range.low && value <= range.high) continue;
    // Any negative number is padding where -1 is.
    if (value < 0 && range.low < 0) continue;
    throw InputError(kFlag, fmt::format("field {} of the data set {} has {} in sample {}, and {} "
                                        "takes numbers from {} to {}",
                                        field.name, dataset.name(), value, i / per_sample, range.op,
                                        range.low, range.high));
  }
}

}  // namespace

std::unique_ptr<Dataset> load_dataset(const std::string& argument, const Graph& graph,
                                      std::uint64_t seed) {
  std::unique_ptr<Dataset> dataset =
      argument == "synthetic" ? make_synthetic(graph, seed) : open_argument(argument);
  require_fields(*dataset, graph);
  for (const TensorId input : graph.inputs) {
    if (graph.tensor(input).dtype == DType::kInt64) require_range(*dataset, graph, input);
  }
  return dataset;
}

}  // namespace graphpipe

#include <algorithm>

#include "base/counter_random.h"
#include "base/error.h"
#include "base/hash.h"
#include "data/dataset.h"
#include "data/input_range.h"
#include "data/memory_dataset.h"

namespace graphpipe {
namespace {

// Where no operator limits whole numbers.
constexpr std::uint64_t kFreeIntegers = 1000;

void add_integers(const Graph& graph, TensorId input, std::size_t count,
                  const CounterRandom& random, MemoryDataset& dataset) {
  const InputRange range = input_range(graph, input);
  // -1 is padding of a bag; one entry in (entries + 1) is.
  const std::int64_t low = range.op.empty() ? 0 : range.low;
  const std::uint64_t kinds =
      range.op.empty() ? kFreeIntegers : static_cast<std::uint64_t>(range.high - low) + 1;
  std::vector<std::int64_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = low + static_cast<std::int64_t>(random.below(i, kinds));
  }
  const Tensor& tensor = graph.tensor(input);
  dataset.add(tensor.name, tensor.shape, std::span<const std::int64_t>(values));
}

template <typename T>
void add_floats(const Graph& graph, TensorId input, std::size_t count, const CounterRandom& random,
                MemoryDataset& dataset) {
  const bool probability = is_probability(graph, input);
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] =
        static_cast<T>(probability ? static_cast<double>(random.below(i, 2)) : random.normal(i));
  }
  const Tensor& tensor = graph.tensor(input);
  dataset.add(tensor.name, tensor.shape, std::span<const T>(values));
}

void add_bools(const Tensor& tensor, std::size_t count, const CounterRandom& random,
               MemoryDataset& dataset) {
  const auto values = std::make_unique<bool[]>(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = random.below(i, 2) == 1;
  dataset.add(tensor.name, tensor.shape, std::span<const bool>(values.get(), count));
}

}  // namespace

std::unique_ptr<Dataset> synthetic_dataset(const Graph& graph, std::int64_t samples,
                                           std::uint64_t seed) {
  GP_CHECK(samples > 0, "{} samples", samples);
  auto dataset = std::make_unique<MemoryDataset>("synthetic", samples);
  for (const TensorId input : graph.inputs) {
    const Tensor& tensor = graph.tensor(input);
    if (!tensor.batched) continue;
    const auto count = static_cast<std::size_t>(samples * element_count(tensor.shape));
    const CounterRandom random(combine_hash(seed, hash_bytes(tensor.name)));
    switch (tensor.dtype) {
      case DType::kFloat32:
        add_floats<float>(graph, input, count, random, *dataset);
        break;
      case DType::kFloat64:
        add_floats<double>(graph, input, count, random, *dataset);
        break;
      case DType::kInt64:
        add_integers(graph, input, count, random, *dataset);
        break;
      case DType::kBool:
        add_bools(tensor, count, random, *dataset);
        break;
    }
  }
  return dataset;
}

}  // namespace graphpipe

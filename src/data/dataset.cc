#include "data/dataset.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "base/counter_random.h"
#include "base/error.h"
#include "base/hash.h"

namespace graphpipe {

std::int64_t Field::bytes_per_sample() const { return dtype_bytes(dtype) * element_count(shape); }

void Dataset::read(const Field& field, std::span<const std::int64_t>, std::byte*) const {
  throw InputError(
      "data set " + name(),
      "field \"" + field.name + "\" has no data, and the data set no read() of its own");
}

const Field* Dataset::field(const std::string& name) const {
  for (const Field& field : fields()) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

Split split_dataset(std::int64_t samples, std::uint64_t seed) {
  GP_CHECK(samples >= 10, "{} samples; a split needs at least 10", samples);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(samples));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  shuffle_by_key(ids, combine_hash(seed, hash_bytes("split")));
  const auto test = ids.end() - samples / 10;
  const auto validation = test - samples / 10;
  return {{ids.begin(), validation}, {validation, test}, {test, ids.end()}};
}

Split split_dataset(const Dataset& dataset, std::uint64_t seed) {
  constexpr std::int64_t kLeastSamples = 10;
  const auto fail = [&](const std::string& why) {
    throw InputError("data set " + dataset.name(), why);
  };
  std::optional<Split> own = dataset.split();
  if (!own) {
    if (dataset.samples() < kLeastSamples) {
      fail(
          fmt::format("has {} samples, and training, validation and test need at least {} together",
                      dataset.samples(), kLeastSamples));
    }
    return split_dataset(dataset.samples(), seed);
  }
  for (const auto& [part, ids] :
       {std::pair("training", &own->train), std::pair("validation", &own->validation),
        std::pair("test", &own->test)}) {
    if (ids->empty()) fail(fmt::format("its split has no sample for {}", part));
  }
  return *std::move(own);
}

}  // namespace graphpipe

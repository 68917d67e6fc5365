#include "base/error.h"
#include "data/dataset.h"
#include "data/digits.h"
#include "data/manifest.h"
#include "data/movielens.h"
#include "fuzz/targets.h"

namespace graphpipe::fuzz {
namespace {

// Every byte is there: the sanitizer looks.
void read_all(const Dataset& dataset) {
  unsigned sum = 0;
  for (const Field& field : dataset.fields()) {
    const std::int64_t bytes = dataset.samples() * field.bytes_per_sample();
    for (std::int64_t i = 0; i < bytes; ++i) sum += std::to_integer<unsigned>(field.data[i]);
  }
  GP_CHECK(dataset.samples() >= 1, "no sample, whose bytes add up to {}", sum);
}

}  // namespace

void manifest(std::string_view input) {
  const Manifest manifest = parse_manifest(input, "file");
  const std::string text = to_json(manifest);
  GP_CHECK(to_json(parse_manifest(text, "again")) == text, "another manifest");
}

void digits(std::string_view input) { read_all(*parse_digits(input, "file")); }

void movielens(std::string_view input) { read_all(*parse_movielens(input, "file")); }

}  // namespace graphpipe::fuzz

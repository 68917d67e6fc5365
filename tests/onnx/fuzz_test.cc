// ONNX files that are not what they should be: models of PyTorch's exporter, cut and changed at
// random places, are read or refused with InputError, and nothing else.

#include <gtest/gtest.h>

#include "base/counter_random.h"
#include "base/error.h"
#include "base/file.h"
#include "models/onnx/import.h"

namespace graphpipe {
namespace {

constexpr std::uint64_t kRounds = 800;  // of each model

std::string mutate(std::string bytes, std::uint64_t seed) {
  std::uint64_t counter = 0;
  const CounterRandom random(seed);
  const auto draw = [&](std::size_t below) {
    return static_cast<std::size_t>(random.below(counter++, below));
  };
  const std::size_t changes = 1 + draw(4);
  for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
    const std::size_t at = draw(bytes.size());
    switch (draw(5)) {
      case 0:
        bytes.erase(at, 1 + draw(8));
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:  // a piece of itself, elsewhere
        bytes.insert(at, bytes.substr(draw(bytes.size()), 1 + draw(40)));
        break;
      default:
        bytes[at] = static_cast<char>(draw(256));
    }
  }
  return bytes;
}

class OnnxFuzz : public testing::TestWithParam<const char*> {};

TEST_P(OnnxFuzz, IsReadOrRefused) {
  const std::string path = std::string(GP_SOURCE) + "/tests/onnx/exported/" + GetParam() + ".onnx";
  const std::string bytes = read_file(path);
  OnnxOptions options;
  options.loss = "cross_entropy";
  EXPECT_NO_THROW(import_onnx(parse_onnx(bytes, "m", ""), options, "m"));
  int refused = 0;
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    SCOPED_TRACE(seed);
    try {
      import_onnx(parse_onnx(mutate(bytes, seed), "m", ""), options, "m");
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(kRounds / 4));
}

INSTANTIATE_TEST_SUITE_P(Exported, OnnxFuzz,
                         testing::Values("cnn", "bert", "gpt", "lstm", "encoder"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace graphpipe

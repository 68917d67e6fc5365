// Importers against files that are not what they should be: examples, cut and changed at random
// places, are read or refused with InputError, and nothing else.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/counter_random.h"
#include "base/error.h"
#include "base/file.h"
#include "models/dnn_partitioning_json.h"
#include "models/pipedream_profile.h"
#include "models/piper_json.h"

namespace graphpipe {
namespace {

constexpr std::uint64_t kRounds = 4000;

// Pieces that parsers trip over.
const std::vector<std::string> kPieces = {
    "",           "-1",        "1e999", "NaN", "9223372036854775808",
    " -- ",       "\t",        "\n",    "[",   "]",
    "{}",         ":",         "null",  "\"",  "; ",
    "stage_id=0", "0.0000001", "1",     ",",   "\\u0000"};

std::string mutate(std::string text, std::uint64_t seed) {
  std::uint64_t counter = 0;
  const CounterRandom random(seed);
  const auto draw = [&](std::size_t below) {
    return static_cast<std::size_t>(random.below(counter++, below));
  };
  const std::size_t changes = 1 + draw(3);
  for (std::size_t i = 0; i < changes && !text.empty(); ++i) {
    const std::size_t at = draw(text.size());
    switch (draw(4)) {
      case 0:
        text.erase(at, 1 + draw(20));
        break;
      case 1:
        text.insert(at, kPieces[draw(kPieces.size())]);
        break;
      case 2:
        text[at] = static_cast<char>(draw(256));
        break;
      default:  // a piece of itself, elsewhere
        text.insert(at, text.substr(draw(text.size()), 1 + draw(60)));
    }
  }
  return text;
}

void fuzz(const std::string& example, const std::function<void(const std::string&)>& import) {
  const std::string text = read_file(std::string(GP_EXAMPLES) + "/" + example);
  EXPECT_NO_THROW(import(text));
  int refused = 0;
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    try {
      import(mutate(text, seed));
    } catch (const InputError& error) {
      ++refused;
      EXPECT_EQ(error.where().substr(0, 4), "file") << "seed " << seed;
      EXPECT_FALSE(error.message().empty()) << "seed " << seed;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(ImportFuzz, Pipedream) {
  fuzz("small.pipedream.txt", [](const std::string& text) {
    pipedream_graph(parse_pipedream(text, "file"), "fuzz", "file");
  });
}

TEST(ImportFuzz, Piper) {
  fuzz("small.piper.json", [](const std::string& text) {
    piper_graph(parse_piper(parse_json(text, "file"), "file"), "fuzz", "file");
  });
}

TEST(ImportFuzz, DnnPartitioning) {
  fuzz("small.dnn-partitioning.json", [](const std::string& text) {
    dnn_graph(parse_dnn_partitioning(parse_json(text, "file"), "file"), "fuzz", "file");
  });
}

}  // namespace
}  // namespace graphpipe

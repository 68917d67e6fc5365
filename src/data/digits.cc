#include "data/digits.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "data/memory_dataset.h"

namespace graphpipe {
namespace {

constexpr std::size_t kSide = 8;  // pixels
constexpr std::size_t kPixels = kSide * kSide;
constexpr std::size_t kQuadrants = 4;
constexpr std::int64_t kMaxPixel = 16;
constexpr std::int64_t kClasses = 10;

std::int64_t read_number(const std::string& text, const std::string& where, std::int64_t high,
                         const char* what) {
  const std::int64_t number = parse_integer(text, where);
  if (number < 0 || number > high) {
    throw InputError(where, fmt::format("{} is {}, expected 0 to {}", what, number, high));
  }
  return number;
}

// The quadrant of pixel p of an image.
std::size_t quadrant_of(std::size_t p) {
  const std::size_t row = p / kSide;
  const std::size_t column = p % kSide;
  return row / (kSide / 2) * 2 + column / (kSide / 2);
}

}  // namespace

std::unique_ptr<Dataset> parse_digits(std::string_view csv, const std::string& file) {
  std::array<std::vector<float>, kQuadrants> quadrants;
  std::vector<std::int64_t> labels;
  const std::vector<std::string> lines = split_text(csv, '\n');
  for (std::size_t l = 0; l < lines.size(); ++l) {
    if (l + 1 == lines.size() && lines[l].empty()) break;
    const std::string where = fmt::format("{}:{}", file, l + 1);
    const std::vector<std::string> cells = split_text(lines[l], ',');
    if (cells.size() != kPixels + 1) {
      throw InputError(
          where, fmt::format("{} numbers, expected {} pixels and a label", cells.size(), kPixels));
    }
    // Quadrants fill row by row, as the image goes.
    for (std::size_t p = 0; p < kPixels; ++p) {
      const std::int64_t pixel = read_number(cells[p], where, kMaxPixel, "a pixel");
      quadrants[quadrant_of(p)].push_back(static_cast<float>(pixel) /
                                          static_cast<float>(kMaxPixel));
    }
    labels.push_back(read_number(cells[kPixels], where, kClasses - 1, "the label"));
  }
  if (labels.empty()) throw InputError(file, "no images; expected lines of 65 numbers");
  auto dataset =
      std::make_unique<MemoryDataset>("digits", static_cast<std::int64_t>(labels.size()));
  for (std::size_t q = 0; q < kQuadrants; ++q) {
    dataset->add(fmt::format("quadrant{}", q), {kPixels / kQuadrants},
                 std::span<const float>(quadrants[q]));
  }
  dataset->add("label", {}, std::span<const std::int64_t>(labels));
  return dataset;
}

void convert_digits(const std::string& csv_path, const std::string& folder) {
  write_dataset(*parse_digits(read_file(csv_path), csv_path), folder);
}

}  // namespace graphpipe

#include "data/digits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "data/test_folder.h"

namespace graphpipe {
namespace {

// A line whose pixel p is pixel(p).
template <typename Pixel>
std::string line(const Pixel& pixel, const std::string& label) {
  std::string text;
  for (int p = 0; p < 64; ++p) text += fmt::format("{},", pixel(p));
  return text + label + "\n";
}

const std::string kBlank = line([](int) { return 0; }, "0");

std::string digits_fault(const std::string& csv) {
  return input_fault([&] { parse_digits(csv, "digits.csv"); });
}

TEST(Digits, CutsImagesIntoQuarters) {
  // Row r, column c holds r + c, up to 14.
  const auto dataset =
      parse_digits(kBlank + line([](int p) { return p / 8 + p % 8; }, "7"), "digits.csv");
  EXPECT_EQ(dataset->samples(), 2);
  const auto pixel = [&](const std::string& quadrant, std::size_t i) {
    return 16 * element<float>(dataset->field(quadrant)->data, 16 + i);
  };
  EXPECT_EQ(pixel("quadrant0", 0), 0);
  EXPECT_EQ(pixel("quadrant0", 5), 2);    // row 1, column 1
  EXPECT_EQ(pixel("quadrant1", 0), 4);    // row 0, column 4
  EXPECT_EQ(pixel("quadrant2", 0), 4);    // row 4, column 0
  EXPECT_EQ(pixel("quadrant2", 3), 7);    // row 4, column 3
  EXPECT_EQ(pixel("quadrant3", 15), 14);  // row 7, column 7
  EXPECT_EQ(element<std::int64_t>(dataset->field("label")->data, 1), 7);
}

TEST(Digits, SaysWhatIsWrong) {
  EXPECT_EQ(digits_fault(""), "digits.csv: no images; expected lines of 65 numbers");
  EXPECT_EQ(digits_fault(kBlank + "1,2,3\n"),
            "digits.csv:2: 3 numbers, expected 64 pixels and a label");
  EXPECT_EQ(digits_fault(line([](int p) { return p == 3 ? 17 : 0; }, "1")),
            "digits.csv:1: a pixel is 17, expected 0 to 16");
  EXPECT_EQ(digits_fault(line([](int) { return 0; }, "10")),
            "digits.csv:1: the label is 10, expected 0 to 9");
}

TEST(Digits, ConvertsToAFolder) {
  const TestFolder folder;
  write_file(folder.path() + "/raw", kBlank);
  convert_digits(folder.path() + "/raw", folder.path() + "/digits");
  const auto dataset = open_dataset(folder.path() + "/digits");
  EXPECT_EQ(dataset->name(), "digits");
  EXPECT_EQ(dataset->fields().size(), 5U);
}

}  // namespace
}  // namespace graphpipe

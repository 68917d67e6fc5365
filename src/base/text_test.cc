#include "base/text.h"

#include <gtest/gtest.h>

#include "base/test_fault.h"

namespace graphpipe {
namespace {

TEST(BytesText, PicksTheUnitWithThreeDigits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(12), "12 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.00 KiB");
  EXPECT_EQ(bytes_text(1.5 * 0x1p30), "1.50 GiB");
  EXPECT_EQ(bytes_text(20.25 * 0x1p20), "20.2 MiB");
  EXPECT_EQ(bytes_text(345.6 * 0x1p40), "346 TiB");
  EXPECT_EQ(bytes_text(-2 * 0x1p20), "-2.00 MiB");
}

TEST(BytesText, RoundsUpIntoTheNextUnit) {
  EXPECT_EQ(bytes_text(1023.9 * 0x1p20), "1.00 GiB");
  EXPECT_EQ(bytes_text(9.996 * 0x1p20), "10.0 MiB");
}

TEST(SecondsText, PicksTheUnitWithThreeDigits) {
  EXPECT_EQ(seconds_text(0), "0 s");
  EXPECT_EQ(seconds_text(1.234e-3), "1.23 ms");
  EXPECT_EQ(seconds_text(45.6e-6), "45.6 us");
  EXPECT_EQ(seconds_text(2), "2.00 s");
  EXPECT_EQ(seconds_text(3e-9), "3.00 ns");
  EXPECT_EQ(seconds_text(0.99999), "1.00 s");
  EXPECT_EQ(seconds_text(1234), "1234 s");
  EXPECT_EQ(seconds_text(-0.5), "-500 ms");
}

TEST(CountText, SeparatesThousands) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(count_text(-999), "-999");
  EXPECT_EQ(count_text(-123456), "-123,456");
}

TEST(ParseBytes, KnowsDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_bytes("512", "x"), 512);
  EXPECT_EQ(parse_bytes("512B", "x"), 512);
  EXPECT_EQ(parse_bytes("2GiB", "x"), 2147483648.0);
  EXPECT_EQ(parse_bytes("16GB", "x"), 16e9);
  EXPECT_EQ(parse_bytes(" 1.5 MiB ", "x"), 1572864);
  EXPECT_EQ(parse_bytes("3kB", "x"), 3000);
}

TEST(ParseBytes, SaysWhichUnitsThereAre) {
  const std::string expected =
      "--memory: expected a number of bytes such as 512 or 2GiB, with one of the units B, kB, MB, "
      "GB, TB, KiB, MiB, GiB, TiB; found \"";
  for (const std::string text : {"2Gb", "", "GiB", "-1", "1e999", "nan", "2GiB/s", "0x10"}) {
    EXPECT_EQ(input_fault([&] { parse_bytes(text, "--memory"); }), expected + text + "\"");
  }
}

TEST(ParseBandwidth, TellsBitsFromBytes) {
  EXPECT_EQ(parse_bandwidth("25GiB/s", "x"), 25 * 0x1p30);
  EXPECT_EQ(parse_bandwidth("12.5e9", "x"), 12.5e9);
  EXPECT_EQ(parse_bandwidth("100Gb/s", "x"), 12.5e9);
  EXPECT_EQ(parse_bandwidth("12.5GB/s", "x"), 12.5e9);
}

TEST(ParseBandwidth, SaysWhichUnitsThereAre) {
  EXPECT_EQ(input_fault([] { parse_bandwidth("25GiB", "--cluster"); }),
            "--cluster: expected a bandwidth such as 25GiB/s or 100Gb/s (lower-case b: bits), or "
            "bytes per second, with one of the units B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, "
            "GiB/s, TiB/s, b/s, kb/s, Mb/s, Gb/s, Tb/s; found \"25GiB\"");
}

TEST(ParseSeconds, IsTheNearestDouble) {
  EXPECT_EQ(parse_seconds("5us", "x"), 5e-6);
  EXPECT_EQ(parse_seconds("0.1ms", "x"), 1e-4);
  EXPECT_EQ(parse_seconds("2s", "x"), 2);
  EXPECT_EQ(parse_seconds("2", "x"), 2);
  EXPECT_EQ(parse_seconds("7ns", "x"), 7e-9);
}

TEST(ParseSeconds, SaysWhichUnitsThereAre) {
  EXPECT_EQ(input_fault([] { parse_seconds("5min", "latency"); }),
            "latency: expected a time such as 5us or 2s, with one of the units s, ms, us, ns; "
            "found \"5min\"");
}

TEST(ParseInteger, TakesWholeNumbersOnly) {
  EXPECT_EQ(parse_integer("42", "x"), 42);
  EXPECT_EQ(parse_integer(" -7 ", "x"), -7);
  EXPECT_EQ(parse_integer("9223372036854775807", "x"), 9223372036854775807);
  for (const std::string text : {"", "4.0", "4x", "x", "1e3", "- 4"}) {
    EXPECT_EQ(input_fault([&] { parse_integer(text, "b"); }),
              "b: expected a whole number, found \"" + text + "\"");
  }
  EXPECT_EQ(input_fault([] { parse_integer("9223372036854775808", "b"); }),
            "b: expected a whole number of at most 63 bits, found \"9223372036854775808\"");
}

TEST(ParseNumber, TakesFiniteNumbersOnly) {
  EXPECT_EQ(parse_number("0.25", "x"), 0.25);
  EXPECT_EQ(parse_number("-1e-3", "x"), -1e-3);
  for (const std::string text : {"", "inf", "nan", "1e999", "1,5", "0.5 s"}) {
    EXPECT_EQ(input_fault([&] { parse_number(text, "lr"); }),
              "lr: expected a finite number, found \"" + text + "\"");
  }
}

TEST(SplitText, DropsBlanksAroundItems) {
  using Items = std::vector<std::string>;
  EXPECT_EQ(split_text("", ','), Items());
  EXPECT_EQ(split_text("  ", ','), Items());
  EXPECT_EQ(split_text("a", ','), Items({"a"}));
  EXPECT_EQ(split_text("a, b ,c", ','), Items({"a", "b", "c"}));
  EXPECT_EQ(split_text("a,,", ','), Items({"a", "", ""}));
}

TEST(NearestWord, AllowsAThirdOfTheLetters) {
  const std::vector<std::string> words{"branches", "layers", "hidden"};
  EXPECT_EQ(nearest_word("brnaches", words), "branches");
  EXPECT_EQ(nearest_word("layer", words), "layers");
  EXPECT_EQ(nearest_word("hiddne", words), "hidden");
  EXPECT_EQ(nearest_word("dropout", words), "");
  EXPECT_EQ(nearest_word("x", {}), "");
}

TEST(NearestWord, TiesGoToTheEarlierCandidate) {
  EXPECT_EQ(nearest_word("mat", {"cat", "bat"}), "cat");
  EXPECT_EQ(nearest_word("cat", {"bat", "cat"}), "cat");
}

TEST(NearestWord, CountsASwapOfNeighboursAsOneEdit) {
  EXPECT_EQ(nearest_word("mtm", {"mmt"}), "mmt");
}

}  // namespace
}  // namespace graphpipe

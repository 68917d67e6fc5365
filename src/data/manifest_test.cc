#include "data/manifest.h"

#include <gtest/gtest.h>

#include "data/test_folder.h"

namespace graphpipe {
namespace {

const std::string kField = R"({"name": "x", "dtype": "float32", "shape": [4], "file": "x.bin"})";

std::string manifest(const std::string& fields, const std::string& samples = "3") {
  return R"({"format": "graphpipe-dataset", "version": 1, "name": "d", "samples": )" + samples +
         R"(, "fields": [)" + fields + "]}";
}

std::string manifest_fault(const std::string& json) {
  return input_fault([&] { parse_manifest(json, "m.json"); });
}

std::string field_fault(const std::string& field) { return manifest_fault(manifest(field)); }

TEST(Manifest, ReadsWhatItWrites) {
  const Manifest written{.name = "d",
                         .samples = 3,
                         .fields = {{"x", DType::kFloat32, {2, 2}, "x.bin"},
                                    {"label", DType::kInt64, {}, "label.bin"}}};
  const std::string json = to_json(written);
  const Manifest read = parse_manifest(json, "m.json");
  EXPECT_EQ(read.name, "d");
  EXPECT_EQ(read.samples, 3);
  ASSERT_EQ(read.fields.size(), 2U);
  EXPECT_EQ(read.fields[0].bytes_per_sample(), 16);
  EXPECT_EQ(read.fields[1].file, "label.bin");
  EXPECT_EQ(to_json(read), json);
}

TEST(Manifest, ReadsTheSplitThatItWrites) {
  Manifest written{.name = "d",
                   .samples = 9,
                   .split = ManifestSplit{6, 2, 1},
                   .fields = {{"x", DType::kFloat32, {}, "x"}}};
  const std::string json = to_json(written);
  const Manifest read = parse_manifest(json, "m.json");
  ASSERT_TRUE(read.split);
  EXPECT_EQ(read.split->train, 6);
  EXPECT_EQ(read.split->validation, 2);
  EXPECT_EQ(read.split->test, 1);
  EXPECT_EQ(to_json(read), json);
}

TEST(Manifest, ASplitHasEachSampleOnce) {
  const auto split_fault = [](const std::string& split) {
    return manifest_fault(
        R"({"format": "graphpipe-dataset", "version": 1, "name": "d", "samples": 10, )"
        R"("split": )" +
        split + R"(, "fields": [)" + kField + "]}");
  };
  EXPECT_EQ(split_fault(R"({"train": 8, "validation": 1, "test": 2})"),
            "m.json: /split: 8, 1 and 2 samples are not the 10 that there are");
  EXPECT_EQ(split_fault(R"({"train": 9, "validation": 9223372036854775807, "test": 2})"),
            "m.json: /split: 9, 9223372036854775807 and 2 samples are not the 10 that there are");
  EXPECT_EQ(split_fault(R"({"train": 10, "validation": 0, "test": 0})"),
            "m.json: /split/validation: expected a whole number of at least 1, found 0");
  EXPECT_EQ(split_fault(R"({"train": 9, "valid": 1, "test": 1})"),
            "m.json: /split: unknown key \"valid\"; known keys: train, validation, test");
}

TEST(Manifest, RefusesAnotherFormatOrVersion) {
  EXPECT_EQ(manifest_fault(R"({"format": "graphpipe-plan"})"),
            "m.json: /format: expected \"graphpipe-dataset\", found \"graphpipe-plan\"; this is "
            "not a data set");
  EXPECT_EQ(manifest_fault(R"({"format": "graphpipe-dataset", "version": 2})"),
            "m.json: /version: expected 1, found 2; write the data set anew with this program");
}

TEST(Manifest, RefusesUnknownKeysAndMissingOnes) {
  EXPECT_EQ(field_fault(R"({"name": "x", "type": "float32"})"),
            "m.json: /fields/0: unknown key \"type\" (did you mean \"dtype\"?); known keys: name, "
            "dtype, shape, file");
  EXPECT_EQ(field_fault(R"({"name": "x", "dtype": "float32", "file": "x"})"),
            "m.json: /fields/0: \"shape\" is missing");
}

TEST(Manifest, NeedsSamplesAndFields) {
  EXPECT_EQ(manifest_fault(manifest(kField, "0")),
            "m.json: /samples: expected a whole number of at least 1, found 0");
  EXPECT_EQ(manifest_fault(manifest("")), "m.json: /fields: is empty; expected at least one field");
}

TEST(Manifest, NamesOfFieldsAreNotEmptyAndUnique) {
  EXPECT_EQ(field_fault(R"({"name": "", "dtype": "float32", "shape": [], "file": "x"})"),
            "m.json: /fields/0/name: is empty; a field is called as a graph's input");
  EXPECT_EQ(manifest_fault(manifest(kField + ", " + kField)),
            "m.json: /fields/1/name: another field is called \"x\" too");
}

TEST(Manifest, RefusesUnknownTypesAndSizes) {
  EXPECT_EQ(field_fault(R"({"name": "x", "dtype": "int32", "shape": [], "file": "x"})"),
            "m.json: /fields/0/dtype: unknown dtype \"int32\"; expected one of float32, float64, "
            "int64, bool");
  EXPECT_EQ(field_fault(R"({"name": "x", "dtype": "int64", "shape": [2, 0], "file": "x"})"),
            "m.json: /fields/0/shape/1: expected a whole number of at least 1, found 0");
}

TEST(Manifest, RefusesFilesElsewhere) {
  for (const std::string file : {"../x", "/etc/passwd", "..", ""}) {
    EXPECT_EQ(
        field_fault(R"({"name": "x", "dtype": "int64", "shape": [], "file": ")" + file + "\"}"),
        "m.json: /fields/0/file: expected the name of a file in the manifest's folder, "
        "found \"" +
            file + "\"");
  }
}

TEST(Manifest, RefusesSizesThatOverflow) {
  const std::string huge =
      R"({"name": "x", "dtype": "int64", "shape": [4294967296, 4294967296], "file": "x"})";
  EXPECT_EQ(field_fault(huge),
            "m.json: /fields/0: 3 samples of it are more than 1099511627776 bytes, the most that "
            "a field may have");
  EXPECT_EQ(manifest_fault(manifest(kField, "9000000000000000000")),
            "m.json: /fields/0: 9000000000000000000 samples of it are more than 1099511627776 "
            "bytes, the most that a field may have");
}

}  // namespace
}  // namespace graphpipe

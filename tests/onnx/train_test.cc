// The programs: an ONNX model is planned, trained by worker processes from the weights in its
// file, and written as ONNX again.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "graph/weights.h"
#include "job/test_folder.h"
#include "models/onnx/import.h"

namespace graphpipe {
namespace {

const std::string kModel = std::string(GP_SOURCE) + "/tests/onnx/exported/encoder.onnx";

void run(const std::string& folder, const std::string& arguments) {
  const std::string command =
      fmt::format("cd {} && {} {} > log 2>&1", folder, GP_PROGRAM, arguments);
  ASSERT_EQ(std::system(command.c_str()), 0) << command << "\n" << read_file(folder + "/log");
}

Weights trained(const std::string& folder, int ranks) {
  run(folder, fmt::format("plan {}:loss=cross_entropy --cluster local:{} --mini-batch 8 "
                          "--micro-batch 2 --options none -o {}.plan.json",
                          kModel, ranks, ranks));
  run(folder, fmt::format("train {0}.plan.json --data synthetic --iterations 3 --lr 0.2 "
                          "--save-weights {0}.safetensors --save-onnx {0}.onnx",
                          ranks));
  const std::string path = fmt::format("{}/{}.safetensors", folder, ranks);
  return parse_safetensors(read_file(path), path);
}

double largest_difference(const WeightValues& a, const WeightValues& b) {
  double largest = 0;
  for (std::size_t at = 0; at < a.values->size(); at += sizeof(float)) {
    float x, y;
    std::memcpy(&x, a.values->data() + at, sizeof x);
    std::memcpy(&y, b.values->data() + at, sizeof y);
    largest = std::max(largest, std::abs(static_cast<double>(x) - y));
  }
  return largest;
}

TEST(OnnxTraining, StartsFromTheFileAndEndsInOne) {
  const TestFolder folder;
  const Weights one = trained(folder.path(), 1);
  const Weights two = trained(folder.path(), 2);
  const OnnxModel model = parse_onnx(read_file(kModel), kModel, "");
  OnnxOptions options;
  options.loss = "cross_entropy";
  const Graph start = import_onnx(model, options, kModel).graph;
  const std::string written = folder.path() + "/2.onnx";
  const Graph end = import_onnx(parse_onnx(read_file(written), written, ""), {}, written).graph;
  const Weights exported = given_weights(end);
  const Weights before = given_weights(start);
  ASSERT_EQ(one.size(), before.size());
  int moved = 0;
  for (const Parameter& param : start.params) {
    if (!param.trainable) continue;
    const WeightValues& first = before.at(param.name);
    EXPECT_LT(largest_difference(one.at(param.name), first), 0.5) << param.name;
    EXPECT_LT(largest_difference(one.at(param.name), two.at(param.name)), 1e-6) << param.name;
    EXPECT_EQ(*exported.at(param.name).values, *two.at(param.name).values) << param.name;
    moved += largest_difference(one.at(param.name), first) > 0;
  }
  EXPECT_GT(moved, 5);
}

}  // namespace
}  // namespace graphpipe

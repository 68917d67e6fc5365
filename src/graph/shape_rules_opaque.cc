// The outputs of an operator that an imported profile describes.

#include <cmath>

#include "graph/shape_rule.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
constexpr double kMostSeconds = 1e9;

void expect_seconds(const ShapeRule& r, std::string_view name) {
  const double seconds = r.op().number(name);
  if (seconds >= 0 && seconds <= kMostSeconds) return;
  r.fail(fmt::format("{} is {}, expected 0 to {}", name, seconds, kMostSeconds));
}

}  // namespace

std::vector<Tensor> opaque_outputs(const ShapeRule& r) {
  expect_seconds(r, "forward_s");
  expect_seconds(r, "backward_s");
  const std::int64_t saved = r.op().integer("saved_bytes");
  if (saved < 0 || saved > kMostElements) {
    r.fail(fmt::format("saved_bytes is {}, expected 0 to {}", saved, kMostElements));
  }
  std::vector<Tensor> outputs;
  for (const std::int64_t elements : r.op().list("elements")) {
    if (elements < 1 || elements > kMostElements) {
      r.fail(fmt::format("elements has {}, expected 1 to {}", elements, kMostElements));
    }
    outputs.push_back(r.result(DType::kFloat32, {elements})[0]);
  }
  if (r.op().flag("loss")) outputs.push_back(r.result(DType::kFloat32, {})[0]);
  if (outputs.empty()) r.fail("elements is empty and loss is false, expected an output");
  return outputs;
}

}  // namespace graphpipe

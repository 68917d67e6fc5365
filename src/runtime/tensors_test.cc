// Parameters, batches and the counting allocator.

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "graph/builder.h"
#include "runtime/batch_reader.h"
#include "runtime/counting_allocator.h"
#include "runtime/operators.h"
#include "runtime/parameters.h"

namespace graphpipe {
namespace {

Parameter parameter(const std::string& name, Init init, DType dtype = DType::kFloat32) {
  return {name, dtype, {50, 40}, init, true};
}

TEST(MakeParameter, DependsOnSeedAndNameAlone) {
  const Init init{InitKind::kNormal, 0.5};
  const at::Tensor a = make_parameter(parameter("a", init), 1);
  EXPECT_TRUE(a.equal(make_parameter(parameter("a", init), 1)));
  EXPECT_FALSE(a.equal(make_parameter(parameter("b", init), 1)));
  EXPECT_FALSE(a.equal(make_parameter(parameter("a", init), 2)));
}

TEST(MakeParameter, Float32IsFloat64Rounded) {
  const Init init{InitKind::kUniform, 0.3};
  const at::Tensor twice = make_parameter(parameter("a", init, DType::kFloat64), 1);
  EXPECT_TRUE(make_parameter(parameter("a", init), 1).equal(twice.to(at::kFloat)));
}

TEST(MakeParameter, KindsHaveTheirDistribution) {
  const auto make = [](InitKind kind, double scale) {
    return make_parameter(parameter("a", {kind, scale}), 3).detach();
  };
  EXPECT_EQ(make(InitKind::kZeros, 0).abs().max().item<float>(), 0.0F);
  EXPECT_EQ(make(InitKind::kOnes, 0).min().item<float>(), 1.0F);
  EXPECT_EQ(make(InitKind::kConstant, 2.5).max().item<float>(), 2.5F);
  // 2,000 draws: the standard error of the deviation is about 0.5 / sqrt(4000) = 0.008.
  EXPECT_NEAR(make(InitKind::kNormal, 0.5).std().item<float>(), 0.5, 0.04);
  EXPECT_NEAR(make(InitKind::kNormal, 0.5).mean().item<float>(), 0.0, 0.06);
  const at::Tensor uniform = make(InitKind::kUniform, 0.5);
  EXPECT_GE(uniform.min().item<float>(), -0.5F);
  EXPECT_LT(uniform.max().item<float>(), 0.5F);
  EXPECT_NEAR(uniform.std().item<float>(), 0.5 / std::sqrt(3.0), 0.02);
}

TEST(MakeParameter, AsksForAGradientWhereTrainable) {
  Parameter frozen = parameter("a", {});
  frozen.trainable = false;
  EXPECT_TRUE(make_parameter(parameter("a", {}), 1).requires_grad());
  EXPECT_FALSE(make_parameter(frozen, 1).requires_grad());
}

TEST(Sums, AreTheSameForOneBatchAsForItsParts) {
  const at::Tensor values = make_parameter(parameter("a", {InitKind::kNormal, 1}), 1).detach();
  const at::Tensor flat = values.view({2000});
  double by_parts = 0;
  for (std::int64_t i = 0; i < 2000; i += 400) {
    by_parts = add_elements(by_parts, flat.narrow(0, i, 400));
  }
  EXPECT_EQ(by_parts, add_elements(0, flat));
  EXPECT_NEAR(by_parts, values.sum().item<float>(), 1e-3);
  EXPECT_NEAR(sum_of_squares(values), values.square().sum().item<float>(), 1e-2);
  EXPECT_EQ(sum_of_squares(at::Tensor()), 0);
}

TEST(ClipFactor, IsOneUpToTheNormThatIsAllowed) {
  EXPECT_EQ(clip_factor(3, 0), 1);  // not clipped
  EXPECT_EQ(clip_factor(3, 4), 1);
  EXPECT_EQ(clip_factor(4, 4), 1);
  EXPECT_EQ(clip_factor(0, 4), 1);
  EXPECT_EQ(clip_factor(8, 4), 0.5);
}

// Four samples: "a" counts in float64, "b" in int64.
class SmallDataset : public Dataset {
 public:
  SmallDataset() {
    std::iota(a_.begin(), a_.end(), 0.5);
    std::iota(b_.begin(), b_.end(), 10);
    fields_ = {{"a", DType::kFloat64, {2}, reinterpret_cast<const std::byte*>(a_.data())},
               {"b", DType::kInt64, {}, reinterpret_cast<const std::byte*>(b_.data())}};
  }
  std::string name() const override { return "small"; }
  std::int64_t samples() const override { return 4; }
  const std::vector<Field>& fields() const override { return fields_; }

 private:
  std::vector<double> a_ = std::vector<double>(8);
  std::vector<std::int64_t> b_ = std::vector<std::int64_t>(4);
  std::vector<Field> fields_;
};

Graph reads(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
            bool is_batched = true) {
  GraphBuilder builder("g");
  builder.input(name, dtype, std::move(shape), is_batched);
  return builder.graph();
}

TEST(BatchReader, GathersRowsInTheOrderOfTheIds) {
  const SmallDataset dataset;
  const Graph graph = reads("b", DType::kInt64, {});
  const std::vector<std::int64_t> ids = {3, 0, 3};
  const at::Tensor batch = BatchReader(graph, dataset).read(graph.inputs[0], ids);
  EXPECT_EQ(batch[0].item<std::int64_t>(), 13);
  EXPECT_EQ(batch[1].item<std::int64_t>(), 10);
  EXPECT_EQ(batch[2].item<std::int64_t>(), 13);
}

// Samples made by code: field "x" of sample i is (i, 10 i).
class Multiples : public Dataset {
 public:
  Multiples() { fields_ = {{"x", DType::kFloat64, {2}}}; }
  std::string name() const override { return "multiples"; }
  std::int64_t samples() const override { return 100; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const Field& field, std::span<const std::int64_t> ids, std::byte* out) const override {
    EXPECT_EQ(field.name, "x");
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto id = static_cast<double>(ids[i]);
      const std::array<double, 2> row = {id, 10 * id};
      std::memcpy(out + i * sizeof row, row.data(), sizeof row);
    }
  }

 private:
  std::vector<Field> fields_;
};

TEST(BatchReader, HasSamplesMadeByCode) {
  const std::vector<std::int64_t> ids = {7, 3};
  for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
    GraphBuilder g("g", dtype);
    g.input("x", {2});
    const at::Tensor batch = BatchReader(g.graph(), Multiples()).read(g.graph().inputs[0], ids);
    EXPECT_EQ(batch.scalar_type(), scalar_type(dtype));
    EXPECT_EQ(batch[0][1].item<double>(), 70);
    EXPECT_EQ(batch[1][0].item<double>(), 3);
  }
}

TEST(BatchReader, ConvertsBetweenFloatingTypes) {
  const SmallDataset dataset;
  const Graph graph = reads("a", DType::kFloat32, {2});
  const std::vector<std::int64_t> ids = {2};
  const at::Tensor batch = BatchReader(graph, dataset).read(graph.inputs[0], ids);
  EXPECT_EQ(batch.scalar_type(), at::kFloat);
  EXPECT_EQ(batch[0][1].item<float>(), 5.5F);
}

std::string fault(const Graph& graph) {
  const SmallDataset dataset;
  try {
    const BatchReader reader(graph, dataset);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(BatchReader, SaysWhichInputItCannotServe) {
  EXPECT_EQ(fault(reads("c", DType::kInt64, {})),
            "data set small: input \"c\": no field has this name");
  EXPECT_EQ(fault(reads("b", DType::kFloat32, {})),
            "data set small: input \"b\": expected float32 (), the field has int64 ()");
  EXPECT_EQ(fault(reads("a", DType::kFloat32, {3})),
            "data set small: input \"a\": expected float32 (3), the field has float64 (2)");
  EXPECT_EQ(fault(reads("a", DType::kFloat32, {2}, false)),
            "data set small: input \"a\": is one tensor for all samples, and a data set gives "
            "one a sample");
}

TEST(BatchReader, NamesASampleThatIsNotThere) {
  const SmallDataset dataset;
  const Graph graph = reads("b", DType::kInt64, {});
  const BatchReader reader(graph, dataset);
  const std::vector<std::int64_t> ids = {0, 4};
  try {
    reader.check_ids(ids);
    FAIL() << "sample 4 was accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "data set small: sample 4 was asked for; it has samples 0 to 3");
  }
}

TEST(CountingAllocator, CountsTheTensorsOfAThreadWhoeverFreesThem) {
  install_counting_allocator();
  const std::int64_t before = live_tensor_bytes();
  reset_peak_tensor_bytes();
  at::Tensor kept = at::empty({1000}, at::kFloat);
  { const at::Tensor passing = at::empty({500}, at::kDouble); }
  EXPECT_EQ(live_tensor_bytes() - before, 4000);
  EXPECT_EQ(peak_tensor_bytes() - before, 8000);
  std::int64_t elsewhere = -1;
  std::thread([&] {
    kept.reset();
    elsewhere = live_tensor_bytes();
  }).join();
  EXPECT_EQ(elsewhere, 0);
  EXPECT_EQ(live_tensor_bytes(), before);
  reset_peak_tensor_bytes();
  EXPECT_EQ(peak_tensor_bytes(), before);
}

TEST(CountingAllocator, KeepsTheLibrarysAlignment) {
  install_counting_allocator();
  for (const std::int64_t n : {1, 3, 17, 1000}) {
    const at::Tensor t = at::empty({n}, at::kByte);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.data_ptr()) % 64, 0U) << n;
  }
}

}  // namespace
}  // namespace graphpipe

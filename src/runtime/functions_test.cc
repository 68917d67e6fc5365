// Functions of elements, reductions and gathers: gradients by finite differences, and a batch
// gives what its samples give one by one.

#include "runtime/functions.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>

#include "base/counter_random.h"
#include "graph/builder.h"
#include "graph/functions.h"
#include "runtime/operators.h"

namespace graphpipe {
namespace {

using Attributes = std::vector<std::pair<std::string, Attribute>>;
const std::vector<std::int64_t> kThreeIds = {5, 2, 9};

// In (0.1, 0.9), where every function is smooth, and no two alike.
at::Tensor smooth(std::vector<std::int64_t> shape, std::uint64_t key) {
  const CounterRandom random(key);
  at::Tensor values = at::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    values.data_ptr<double>()[i] = 0.1 + 0.8 * random.uniform(static_cast<std::uint64_t>(i));
  }
  return values;
}

struct Case {
  Graph graph;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> params;

  at::Tensor forward(const std::vector<at::Tensor>& of, std::span<const std::int64_t> ids) const {
    return forward_op(graph, graph.ops.back(), of, params, {.sample_ids = ids})[0];
  }
  at::Tensor forward() const { return forward(inputs, kThreeIds); }
};

Case make_case(OpKind kind, const Attributes& attributes,
               const std::vector<std::vector<std::int64_t>>& inputs,
               const std::vector<std::vector<std::int64_t>>& params = {}) {
  GraphBuilder g("one", DType::kFloat64);
  Case c;
  std::vector<TensorId> ids;
  std::vector<ParamId> param_ids;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ids.push_back(g.input(fmt::format("x{}", i), inputs[i]));
    std::vector<std::int64_t> sizes = inputs[i];
    sizes.insert(sizes.begin(), 3);
    c.inputs.push_back(smooth(sizes, 10 + i).set_requires_grad(true));
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    param_ids.push_back(g.param(fmt::format("p{}", i), params[i], {}));
    c.params.push_back(smooth(params[i], 20 + i).set_requires_grad(true));
  }
  g.add_op("op", kind, ids, param_ids, attributes);
  c.graph = g.graph();
  return c;
}

Attributes elementwise_attributes(std::string_view function, std::vector<std::int64_t> operands) {
  return {{"alpha", 0.3},
          {"beta", 0.8},
          {"function", std::string(function)},
          {"operands", std::move(operands)}};
}

// By the middle of each tensor: one element differs by a little.
void expect_gradients(const Case& c, const std::string& what) {
  const at::Tensor y = c.forward();
  EXPECT_TRUE(y.is_contiguous()) << what;
  const at::Tensor weights = smooth(y.sizes().vec(), 77);
  torch::autograd::backward({y.mul(weights).sum()}, {});
  std::vector<at::Tensor> leaves = c.inputs;
  leaves.insert(leaves.end(), c.params.begin(), c.params.end());
  for (const at::Tensor& leaf : leaves) {
    ASSERT_TRUE(leaf.grad().defined()) << what;
    const std::int64_t i = leaf.numel() / 2;
    double* value = leaf.data_ptr<double>() + i;
    const double kept = *value;
    const auto at_value = [&](double x) {
      *value = x;
      return c.forward().mul(weights).sum().item<double>();
    };
    constexpr double kStep = 1e-6;
    const double difference = (at_value(kept + kStep) - at_value(kept - kStep)) / (2 * kStep);
    *value = kept;
    EXPECT_NEAR(leaf.grad().contiguous().data_ptr<double>()[i], difference, 1e-5) << what;
  }
}

void expect_samples_alone(const Case& c, const std::string& what) {
  std::vector<at::Tensor> parts;
  for (std::int64_t i = 0; i < 3; ++i) {
    std::vector<at::Tensor> one;
    for (const at::Tensor& input : c.inputs) one.push_back(input.narrow(0, i, 1).contiguous());
    parts.push_back(c.forward(one, std::span(kThreeIds).subspan(static_cast<std::size_t>(i), 1)));
  }
  EXPECT_TRUE(at::allclose(at::cat(parts), c.forward())) << what;
}

bool is_smooth(const ElementwiseFunction& f) {
  return f.types == FunctionTypes::kFloating || f.types == FunctionTypes::kNumbers ||
         f.types == FunctionTypes::kPower;
}

TEST(Functions, EveryElementwiseOneHasItsGradient) {
  int tried = 0;
  for (const ElementwiseFunction& f : elementwise_functions()) {
    if (!is_smooth(f)) continue;
    if (f.name == "acosh" || f.name == "fmod" || f.name == "mod") continue;  // below
    ++tried;
    const std::string name(f.name);
    if (f.operands == 1) {
      const Case c = make_case(OpKind::kElementwise, elementwise_attributes(f.name, {0}), {{2, 3}});
      expect_gradients(c, name);
      expect_samples_alone(c, name);
      continue;
    }
    // Operands broadcast: fewer dimensions, a parameter on either side.
    const Case two =
        make_case(OpKind::kElementwise, elementwise_attributes(f.name, {0, 1}), {{2, 3}, {3}});
    expect_gradients(two, name);
    expect_samples_alone(two, name);
    const Case first = make_case(OpKind::kElementwise, elementwise_attributes(f.name, {-1, 0}),
                                 {{2, 3}}, {{2, 1}});
    expect_gradients(first, name + " of a parameter");
  }
  EXPECT_EQ(tried, 40);
}

TEST(Functions, EveryFunctionOfTheTableIsComputed) {
  for (const ElementwiseFunction& f : elementwise_functions()) {
    GraphBuilder g("one");
    const bool logical = f.types == FunctionTypes::kBool;
    std::vector<TensorId> xs;
    std::vector<at::Tensor> values;
    std::vector<std::int64_t> operands;
    for (int i = 0; i < f.operands; ++i) {
      const bool is_bool = logical || (f.types == FunctionTypes::kSelect && i == 0);
      xs.push_back(g.input(fmt::format("x{}", i), is_bool ? DType::kBool : DType::kFloat32, {2}));
      values.push_back(smooth({3, 2}, 5).to(is_bool ? at::kBool : at::kFloat));
      operands.push_back(i);
    }
    const std::vector<TensorId> y =
        g.add_op("op", OpKind::kElementwise, xs, {}, elementwise_attributes(f.name, operands));
    const auto found =
        forward_op(g.graph(), g.graph().ops.back(), values, {}, {.sample_ids = kThreeIds});
    EXPECT_EQ(found[0].scalar_type(), scalar_type(g.graph().tensor(y[0]).dtype)) << f.name;
  }
}

TEST(Functions, ReductionsHaveTheirGradients) {
  for (const std::string_view f : reduce_functions()) {
    for (const bool keep : {true, false}) {
      const std::vector<std::int64_t> axes =
          is_arg_function(f) ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{0, 2};
      const Case c =
          make_case(OpKind::kReduce, {{"axes", axes}, {"function", std::string(f)}, {"keep", keep}},
                    {{2, 3, 4}});
      expect_samples_alone(c, std::string(f));
      if (!is_arg_function(f)) expect_gradients(c, std::string(f));
    }
  }
}

TEST(Functions, AlongAnAxisTooButWhereNothingIsSmooth) {
  for (const std::string_view f : along_axis_functions()) {
    const Case c = make_case(OpKind::kAlongAxis,
                             {{"axis", std::int64_t{0}}, {"function", std::string(f)}}, {{3, 4}});
    expect_samples_alone(c, std::string(f));
    if (f != "hardmax") expect_gradients(c, std::string(f));
  }
}

// Indices with samples and without, of data with samples and without, along every axis.
TEST(Functions, GathersAreThoseOfEachSample) {
  for (const bool own_data : {true, false}) {
    for (const bool own_indices : {true, false}) {
      for (const std::int64_t axis : {0, 1}) {
        GraphBuilder g("one", DType::kFloat64);
        Case c;
        std::vector<TensorId> xs;
        std::vector<ParamId> ps;
        std::vector<std::int64_t> operands;
        const auto add = [&](bool own, const char* name, DType dtype,
                             std::vector<std::int64_t> shape, at::Tensor values) {
          if (own) {
            operands.push_back(static_cast<std::int64_t>(xs.size()));
            xs.push_back(g.input(name, dtype, shape));
            c.inputs.push_back(values);
          } else {
            operands.push_back(-1 - static_cast<std::int64_t>(ps.size()));
            ps.push_back(g.given(name, dtype, shape, nullptr, false));
            c.params.push_back(values[0].contiguous());
          }
        };
        add(own_data, "data", DType::kFloat64, {4, 5}, smooth({3, 4, 5}, 1));
        add(own_indices, "indices", DType::kInt64, {2},
            smooth({3, 2}, 2).mul(8).sub(4).to(at::kLong));  // -4 .. 3
        if (xs.empty()) {
          xs.push_back(g.input("carrier", {1}));
          c.inputs.push_back(smooth({3, 1}, 3));
        }
        g.add_op("op", OpKind::kGather, xs, ps,
                 {{"axis", axis}, {"mode", std::string("index")}, {"operands", operands}});
        c.graph = g.graph();
        expect_samples_alone(c, "gather");
        EXPECT_EQ(c.forward().sizes(),
                  (std::vector<std::int64_t>{3, axis == 0 ? 2 : 4, axis == 0 ? 5 : 2}));
      }
    }
  }
}

TEST(Functions, ExpandCopiesAndAddsItsGradients) {
  const Case c =
      make_case(OpKind::kExpand, {{"shape", std::vector<std::int64_t>{4, 2, 3}}}, {{2, 1}});
  expect_gradients(c, "expand");
  expect_samples_alone(c, "expand");
}

TEST(Functions, MatmulBroadcastsItsLeadingDimensions) {
  const Case c = make_case(OpKind::kMatmul, {{"transpose_b", false}}, {{2, 3, 4}, {4, 5}});
  EXPECT_EQ(c.forward().sizes(), (std::vector<std::int64_t>{3, 2, 3, 5}));
  expect_gradients(c, "matmul");
  expect_samples_alone(c, "matmul");
}

}  // namespace
}  // namespace graphpipe

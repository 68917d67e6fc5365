#include "runtime/reducer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mutex>

#include "graph/builder.h"
#include "runtime/thread_ranks.h"

namespace graphpipe {
namespace {

constexpr double kReduceTimeoutS = 20;

// Two parameters, of 5 and of 2 elements: parts of unlike sizes on three ranks.
Graph graph_with_parameters() {
  GraphBuilder g("two");
  const TensorId x = g.input("x", {5});
  const TensorId y = g.add_parameter("five", x, {});
  const TensorId z = g.add_parameter("two", g.slice("part", y, 0, 0, 2), {});
  g.loss(g.mse_loss("loss", z, g.input("target", {2})));
  return std::move(g).build();
}

std::vector<Bucket> bucket_of(const Graph& graph, int ranks) {
  Bucket bucket{.params = {ParamId(1), ParamId(0)}};
  for (int r = 0; r < ranks; ++r) bucket.ranks.emplace_back(r);
  for (const ParamId param : bucket.params) bucket.bytes += param_bytes(graph.param(param));
  return {bucket};
}

// The gradients of each rank after `rounds` sums of what `gradient(rank, parameter)` gives.
template <typename Gradient>
std::vector<std::vector<at::Tensor>> sums(int ranks, std::uint64_t plan_of_last,
                                          Gradient gradient) {
  const Graph graph = graph_with_parameters();
  const std::vector<Bucket> buckets = bucket_of(graph, ranks);
  std::vector<std::vector<at::Tensor>> result(static_cast<std::size_t>(ranks));
  auto transports = connect_threads(ranks, kReduceTimeoutS);
  std::mutex mutex;
  run_thread_ranks(transports, [&](Transport& transport) {
    std::vector<at::Tensor> params = {at::zeros({5}), at::zeros({2})};
    const TagSpace tags(1);
    const bool last = transport.rank() + 1 == ranks;
    Reducer reducer(graph, buckets, last ? plan_of_last : 1, params, transport, tags, 0);
    for (std::int64_t iteration = 0; iteration < 3; ++iteration) {
      for (std::size_t p = 0; p < params.size(); ++p) {
        params[p].mutable_grad() = gradient(transport.rank(), static_cast<int>(p));
      }
      reducer.start(0, iteration);
      reducer.wait(0);
    }
    const std::lock_guard lock(mutex);
    for (const at::Tensor& param : params) {
      result[static_cast<std::size_t>(transport.rank())].push_back(param.grad().clone());
    }
  });
  return result;
}

// (size) with the numbers scale, 2 scale, ...
at::Tensor multiples(std::int64_t size, int scale) {
  return at::arange(1, size + 1, at::kFloat).mul(scale);
}

TEST(Reducer, GivesEveryHolderTheSum) {
  for (const int ranks : {2, 3, 5}) {
    const auto result =
        sums(ranks, 1, [](int rank, int param) { return multiples(param == 0 ? 5 : 2, rank + 1); });
    for (const auto& gradients : result) {
      EXPECT_TRUE(gradients[0].equal(multiples(5, ranks * (ranks + 1) / 2)));
      EXPECT_TRUE(gradients[1].equal(multiples(2, ranks * (ranks + 1) / 2)));
    }
  }
}

TEST(Reducer, AddsInTheOrderOfTheRanks) {
  // (1 + 1e8) - 1e8 is 0 in float32, and 1 in any order that ends with the 1.
  const auto result = sums(3, 1, [](int rank, int param) {
    return at::full({param == 0 ? 5 : 2}, rank == 0 ? 1.0F : rank == 1 ? 1e8F : -1e8F);
  });
  for (const auto& gradients : result) EXPECT_TRUE(gradients[0].equal(at::zeros({5})));
}

TEST(Reducer, TakesAMissingGradientForZero) {
  const auto result = sums(2, 1, [](int rank, int param) {
    return rank == 0 ? at::Tensor() : at::full({param == 0 ? 5 : 2}, 3.0F);
  });
  EXPECT_TRUE(result[0][0].equal(at::full({5}, 3.0F)));
}

TEST(Reducer, RefusesSharesOfAnotherPlan) {
  try {
    sums(2, 2, [](int, int param) { return at::zeros({param == 0 ? 5 : 2}); });
    FAIL() << "summed over two plans";
  } catch (const PeerError&) {
    FAIL() << "only a lost peer was told";
  } catch (const RunError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("reduction #0 from rank ")) << text;
    EXPECT_NE(text.find(": plan: expected "), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace graphpipe

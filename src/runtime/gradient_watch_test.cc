#include "runtime/gradient_watch.h"

#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>

#include "base/error.h"

namespace graphpipe {
namespace {

// y = x a b, and c, of which nothing depends on y.
class Watched : public testing::Test {
 protected:
  at::Tensor leaf() const { return at::full({2, 2}, 0.5).set_requires_grad(true); }
  void backward() {
    const at::Tensor y = at::ones({1, 2}).matmul(a_).matmul(b_);
    torch::autograd::backward({y}, {at::ones({1, 2})});
  }
  GradientWatch::Point point(std::vector<at::Tensor> params, const std::string& name) {
    return {std::move(params), [this, name] {
              seen_ +=
                  name + (a_.grad().defined() ? "A" : "") + (b_.grad().defined() ? "B" : "") + " ";
            }};
  }

  at::Tensor a_ = leaf();
  at::Tensor b_ = leaf();
  at::Tensor c_ = leaf();
  std::string seen_;
};

TEST_F(Watched, PointsAreReachedWhileTheBackwardGoesOn) {
  GradientWatch watch({point({b_}, "1"), point({b_, a_}, "2"), point({}, "3")});
  backward();
  EXPECT_EQ(seen_, "1B 2AB 3AB ");
  watch.finish();
  EXPECT_EQ(seen_, "1B 2AB 3AB ");
}

TEST_F(Watched, APointWaitsForThoseBefore) {
  GradientWatch watch({point({a_}, "1"), point({b_}, "2")});
  backward();
  EXPECT_EQ(seen_, "1AB 2AB ");
}

TEST_F(Watched, WhatGetsNoGradientIsReachedAtTheEnd) {
  GradientWatch watch({point({b_}, "1"), point({c_}, "2"), point({a_}, "3")});
  backward();
  EXPECT_EQ(seen_, "1B ");
  watch.finish();
  EXPECT_EQ(seen_, "1B 2AB 3AB ");
}

TEST_F(Watched, WhatAPointThrowsComesOutOfFinish) {
  GradientWatch watch({{{b_}, [] { throw RunError("lost"); }}, point({a_}, "2")});
  backward();
  EXPECT_TRUE(a_.grad().defined());
  EXPECT_THROW(watch.finish(), RunError);
  EXPECT_EQ(seen_, "");
}

TEST_F(Watched, NothingIsReachedOnceTheWatchIsGone) {
  const at::Tensor y = at::ones({1, 2}).matmul(a_).matmul(b_);
  { const GradientWatch watch({point({b_}, "1")}); }
  torch::autograd::backward({y}, {at::ones({1, 2})});
  EXPECT_EQ(seen_, "");
}

}  // namespace
}  // namespace graphpipe

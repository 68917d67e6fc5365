// Calls back within a backward, as soon as the gradients of some parameters are complete: while
// the library goes on to earlier operators.

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace graphpipe {

class GradientWatch {
 public:
  struct Point {
    std::vector<at::Tensor> params;  // leaves that ask for a gradient
    std::function<void()> reached;
  };

  // From here on backwards are watched; they run on the calling thread. Points are reached in
  // their order, each once its parameters and those of all before have their gradients.
  explicit GradientWatch(std::vector<Point> points);
  ~GradientWatch();
  GradientWatch(const GradientWatch&) = delete;
  GradientWatch& operator=(const GradientWatch&) = delete;

  // After the backward: reaches what is left, for parameters that got no gradient. Throws what
  // a point threw; no point is reached after that.
  void finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace graphpipe

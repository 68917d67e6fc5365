#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <cstdint>

#include "runtime/transport/transport.h"

namespace graphpipe {

// Numbers of all ranks, in one table of doubles: each rank fills its own rows, the sum over
// ranks fills the rest.
class SharedTable {
 public:
  SharedTable(std::int64_t rows, std::int64_t columns)
      : values_(at::zeros({rows, columns}, at::kDouble)), columns_(columns) {}

  double* row(std::int64_t i) { return values_.data_ptr<double>() + i * columns_; }
  void exchange(Transport& transport) {
    if (values_.numel() > 0) transport.all_reduce_sum(values_);
  }

 private:
  at::Tensor values_;
  std::int64_t columns_;
};

}  // namespace graphpipe

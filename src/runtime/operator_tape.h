// A forward whose backward comes in two halves: gradients of the inputs first, which other
// stages wait for, and gradients of the parameters later, when there is time. Each operator
// is recorded by itself, so that the second half needs nothing but what entered its own
// backward (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2).

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace graphpipe {

class OperatorTape {
 public:
  // Gradients by slot of a forward's table; undefined: none.
  using Gradients = std::vector<at::Tensor>;

  // A first gradient is taken as it is, another is added to it out of place.
  static void accumulate(at::Tensor& sum, const at::Tensor& gradient);

  // What an operator is to read: leaves of a graph of its own, with a gradient where the
  // input has one.
  static std::vector<at::Tensor> leaves(const std::vector<at::Tensor>& inputs);

  // An operator has run, recorded, on `leaves`: they stand in these slots, its outputs in
  // those. `params`: those of its parameters that are trained.
  void add(const std::vector<std::size_t>& input_slots, const std::vector<at::Tensor>& leaves,
           const std::vector<std::size_t>& output_slots, const std::vector<at::Tensor>& outputs,
           const std::vector<at::Tensor>& params);

  // Carries the gradients in the table from the last operator to the first; those of the
  // operators' inputs are added to it, in that order.
  void backward_inputs(Gradients& table);
  // Adds to the parameters' .grad, and forgets everything. After backward_inputs().
  void backward_params();

 private:
  struct Record {
    std::vector<std::size_t> input_slots;
    std::vector<at::Tensor> leaves;
    std::vector<std::size_t> output_slots;
    std::vector<at::Tensor> outputs;  // with a gradient
    std::vector<at::Tensor> params;
    std::vector<at::Tensor> seeds;  // [outputs]: gradients, kept for the parameters
  };
  void backward_inputs(Record& record, Gradients& table) const;

  std::vector<Record> records_;  // as the operators ran
};

}  // namespace graphpipe

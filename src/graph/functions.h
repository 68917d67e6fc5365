// The functions of the kinds elementwise, reduce and along_axis: data, so that one more
// is a line here and its arithmetic in runtime/functions.cc.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace graphpipe {

// What a function takes, and what comes out.
enum class FunctionTypes {
  kFloating,      // float32 or float64, the same out
  kNumbers,       // those, or int64; the same out
  kBool,          // bool, the same out
  kAny,           // any, the same out
  kCompare,       // any of one type; bool out
  kFloatingTest,  // floating; bool out
  kSelect,        // bool, then two of any one type, which comes out
  kPower,         // numbers, and an exponent of any such type; the first's out
  kToFloat32,     // any; float32 out
  kToFloat64,
  kToInt64,
  kToBool,
};

struct ElementwiseFunction {
  std::string_view name;
  int operands = 1;
  FunctionTypes types = FunctionTypes::kFloating;
  double flops = 1;  // of an element
  // What its backward needs: the operands, the result, and so many tensors like the result beside.
  bool keeps_operands = true;
  bool keeps_result = false;
  std::int64_t kept = 0;
};

// Attributes alpha and beta mean, where the function has such: clip, the bounds; leaky_relu,
// elu, celu, thresholded_relu, the slope or threshold; selu, alpha and the scale; hard_sigmoid,
// slope and offset; shrink, threshold and offset; is_inf, whether negative and positive ones
// count (0 or 1).
std::span<const ElementwiseFunction> elementwise_functions();
// Requires: the name is one of them.
const ElementwiseFunction& elementwise_function(std::string_view name);
const ElementwiseFunction* find_elementwise_function(std::string_view name);

// sum, mean, max, min, prod, l1, l2, sum_square, log_sum, log_sum_exp; arg_max, arg_min
// (int64; over one axis; the first of several).
std::span<const std::string_view> reduce_functions();
bool is_arg_function(std::string_view name);
bool reduction_keeps_input(std::string_view name);  // for its backward
bool reduction_keeps_result(std::string_view name);

// softmax, log_softmax, hardmax (1 at the first largest), cumulative_sum.
std::span<const std::string_view> along_axis_functions();
bool along_axis_keeps_result(std::string_view name);  // for its backward; the input never

}  // namespace graphpipe

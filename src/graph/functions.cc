#include "graph/functions.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace graphpipe {
namespace {

using enum FunctionTypes;

// Transcendental functions count as the handful of operations that libraries spend on them.
constexpr double kTranscendental = 4;

constexpr ElementwiseFunction kElementwise[] = {
    {"identity", 1, kAny, 0, false},
    {"cast_float32", 1, kToFloat32, 1, false},
    {"cast_float64", 1, kToFloat64, 1, false},
    {"cast_int64", 1, kToInt64, 1, false},
    {"cast_bool", 1, kToBool, 1, false},

    {"abs", 1, kNumbers},
    {"neg", 1, kNumbers, 1, false},
    {"sign", 1, kNumbers, 1, false},
    {"floor", 1, kFloating, 1, false},
    {"ceil", 1, kFloating, 1, false},
    {"round", 1, kFloating, 1, false},
    {"sqrt", 1, kFloating, 1, false, true},
    {"reciprocal", 1, kFloating, 1, false, true},
    {"exp", 1, kFloating, kTranscendental, false, true},
    {"log", 1, kFloating, kTranscendental},
    {"erf", 1, kFloating, kTranscendental},
    {"sin", 1, kFloating, kTranscendental},
    {"cos", 1, kFloating, kTranscendental},
    {"tan", 1, kFloating, kTranscendental, true, true},
    {"asin", 1, kFloating, kTranscendental},
    {"acos", 1, kFloating, kTranscendental},
    {"atan", 1, kFloating, kTranscendental},
    {"sinh", 1, kFloating, kTranscendental},
    {"cosh", 1, kFloating, kTranscendental},
    {"asinh", 1, kFloating, kTranscendental},
    {"acosh", 1, kFloating, kTranscendental},
    {"atanh", 1, kFloating, kTranscendental},
    {"softplus", 1, kFloating, 2 * kTranscendental, true, true},
    {"softsign", 1, kFloating, 3, true, false, 2},
    {"clip", 1, kFloating, 2},
    {"leaky_relu", 1, kFloating, 2},
    {"elu", 1, kFloating, kTranscendental, true, true},
    {"celu", 1, kFloating, kTranscendental, true, true, 3},
    {"selu", 1, kFloating, kTranscendental, true, true},
    {"hard_sigmoid", 1, kFloating, 4, true, false, 2},
    {"hard_swish", 1, kFloating, 4},
    {"thresholded_relu", 1, kFloating, 1, true, false, 2},
    {"shrink", 1, kFloating, 3, true, false, 3},
    {"is_nan", 1, kFloatingTest, 1, false},
    {"is_inf", 1, kFloatingTest, 1, false},
    {"not", 1, kBool, 1, false},

    {"add", 2, kNumbers, 1, false},
    {"sub", 2, kNumbers, 1, false},
    {"mul", 2, kNumbers},
    {"div", 2, kNumbers, 1, true, true},
    {"pow", 2, kPower, 2 * kTranscendental, true, true},
    {"mod", 2, kNumbers, 2},   // the divisor's sign
    {"fmod", 2, kNumbers, 2},  // the dividend's sign
    {"max", 2, kNumbers, 1, true, false, 1},
    {"min", 2, kNumbers, 1, true, false, 1},
    {"prelu", 2, kFloating, 2, true, false, 2},  // x, slope
    {"equal", 2, kCompare, 1, false},
    {"less", 2, kCompare, 1, false},
    {"less_or_equal", 2, kCompare, 1, false},
    {"greater", 2, kCompare, 1, false},
    {"greater_or_equal", 2, kCompare, 1, false},
    {"and", 2, kBool, 1, false},
    {"or", 2, kBool, 1, false},
    {"xor", 2, kBool, 1, false},

    {"where", 3, kSelect},  // condition, x where it is true, y elsewhere
};

constexpr std::array<std::string_view, 12> kReduce = {
    "sum", "mean",       "max",     "min",         "prod",    "l1",
    "l2",  "sum_square", "log_sum", "log_sum_exp", "arg_max", "arg_min"};

constexpr std::array<std::string_view, 4> kAlong = {"softmax", "log_softmax", "hardmax",
                                                    "cumulative_sum"};

}  // namespace

std::span<const ElementwiseFunction> elementwise_functions() { return kElementwise; }

const ElementwiseFunction* find_elementwise_function(std::string_view name) {
  const auto* found = std::ranges::find(kElementwise, name, &ElementwiseFunction::name);
  return found == std::end(kElementwise) ? nullptr : found;
}

const ElementwiseFunction& elementwise_function(std::string_view name) {
  const ElementwiseFunction* found = find_elementwise_function(name);
  GP_CHECK(found != nullptr, "no elementwise function \"{}\"", name);
  return *found;
}

std::span<const std::string_view> reduce_functions() { return kReduce; }

bool is_arg_function(std::string_view name) { return name == "arg_max" || name == "arg_min"; }

bool reduction_keeps_input(std::string_view name) {
  return name != "sum" && name != "mean" && name != "log_sum" && !is_arg_function(name);
}

bool reduction_keeps_result(std::string_view name) {
  return name == "max" || name == "min" || name == "prod" || name == "l2" || name == "log_sum_exp";
}

bool along_axis_keeps_result(std::string_view name) {
  return name == "softmax" || name == "log_softmax";
}

std::span<const std::string_view> along_axis_functions() { return kAlong; }

}  // namespace graphpipe

// Arithmetic on constants while importing: of shapes, mostly. A number may stand for so many
// times the number of samples.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "models/onnx/importer.h"

namespace graphpipe::onnx_import {
namespace {

using Operands = std::vector<std::vector<Item>>;
using Function = std::function<std::optional<Item>(const std::vector<Item>& x)>;

std::optional<Item> plain(double number) { return Item{number, false}; }
bool any_batch(const std::vector<Item>& x) {
  return std::ranges::any_of(x, [](const Item& item) { return item.batch; });
}

Function of_two(double (*function)(double, double)) {
  return [function](const std::vector<Item>& x) {
    return any_batch(x) ? std::nullopt : plain(function(x[0].number, x[1].number));
  };
}

Function of_one(double (*function)(double)) {
  return [function](const std::vector<Item>& x) {
    return any_batch(x) ? std::nullopt : plain(function(x[0].number));
  };
}

std::optional<Item> add(const std::vector<Item>& x) {
  if (x[0].number == 0 && !x[0].batch) return x[1];
  if (x[1].number == 0 && !x[1].batch) return x[0];
  if (x[0].batch != x[1].batch) return std::nullopt;
  return Item{x[0].number + x[1].number, x[0].batch};
}
std::optional<Item> subtract(const std::vector<Item>& x) {
  if (x[0].batch && x[1].batch && x[0].number == x[1].number) return plain(0);
  return add({x[0], {-x[1].number, x[1].batch}});
}
std::optional<Item> multiply(const std::vector<Item>& x) {
  if (x[0].batch && x[1].batch) return std::nullopt;
  return Item{x[0].number * x[1].number, x[0].batch || x[1].batch};
}
std::optional<Item> divide(const std::vector<Item>& x) {
  if (x[1].number == 0 || (x[1].batch && !x[0].batch)) return std::nullopt;
  const double quotient = x[0].number / x[1].number;
  if (x[0].batch && quotient != std::floor(quotient)) return std::nullopt;
  return Item{quotient, x[0].batch && !x[1].batch};
}
// The number of samples is none of these.
std::optional<Item> equal(const std::vector<Item>& x) {
  if (x[0].batch != x[1].batch) return plain(0);
  return plain(x[0].number == x[1].number);
}
template <double (*function)(double, double)>
std::optional<Item> extreme(const std::vector<Item>& x) {
  if (any_batch(x)) return std::nullopt;
  double number = x[0].number;
  for (const Item& item : x) number = function(number, item.number);
  return plain(number);
}
double larger(double a, double b) { return std::max(a, b); }
double smaller(double a, double b) { return std::min(a, b); }

std::optional<Item> where(const std::vector<Item>& x) {
  if (x[0].batch) return std::nullopt;
  return x[0].number != 0 ? x[1] : x[2];
}

const std::map<std::string_view, Function>& functions() {
  static const std::map<std::string_view, Function> kFunctions = {
      {"Add", add},
      {"Sub", subtract},
      {"Mul", multiply},
      {"Div", divide},
      {"Equal", equal},
      {"Max", extreme<larger>},
      {"Min", extreme<smaller>},
      {"Where", where},
      {"Pow", of_two([](double a, double b) { return std::pow(a, b); })},
      {"Less", of_two([](double a, double b) { return double(a < b); })},
      {"Greater", of_two([](double a, double b) { return double(a > b); })},
      {"And", of_two([](double a, double b) { return double(a != 0 && b != 0); })},
      {"Or", of_two([](double a, double b) { return double(a != 0 || b != 0); })},
      {"Not", of_one([](double a) { return double(a == 0); })},
      {"Sqrt", of_one([](double a) { return std::sqrt(a); })},
      {"Neg", of_one([](double a) { return -a; })},
      {"Abs", of_one([](double a) { return std::abs(a); })},
      {"Floor", of_one([](double a) { return std::floor(a); })},
      {"Ceil", of_one([](double a) { return std::ceil(a); })},
  };
  return kFunctions;
}

// Of an element of `out`, the element of an operand that broadcasts to it.
std::size_t source(std::size_t at, const Shape& from, const Shape& out) {
  std::size_t index = 0;
  std::size_t stride = 1;
  for (std::size_t d = 0; d < out.size(); ++d) {
    const auto extent = static_cast<std::size_t>(out[out.size() - 1 - d]);
    const std::size_t place = at % extent;
    at /= extent;
    if (d >= from.size()) continue;
    const auto own = static_cast<std::size_t>(from[from.size() - 1 - d]);
    index += own == 1 ? 0 : place * stride;
    stride *= own;
  }
  return index;
}

double as_type(double number, DType dtype) {
  if (dtype == DType::kInt64) return std::trunc(number);
  if (dtype == DType::kBool) return number != 0;
  if (dtype == DType::kFloat32) return static_cast<float>(number);
  return number;
}

bool is_test(std::string_view type) {
  return type == "Equal" || type == "Less" || type == "Greater" || type == "And" || type == "Or" ||
         type == "Not";
}

}  // namespace

bool fold(Importer& importer) {
  const auto function = functions().find(importer.node().type);
  if (function == functions().end() || importer.inputs() == 0) return false;
  std::vector<Value> operands;
  Operands items;
  for (std::size_t i = 0; i < importer.inputs(); ++i) {
    if (!importer.has_input(i) || !importer.folds(importer.in(i))) return false;
    if (batch_axis(importer.in(i).dims)) return false;
    operands.push_back(importer.in(i));
    const auto found = items_of(operands.back());
    if (!found) return false;
    items.push_back(found->items);
  }
  const Dims dims = importer.broadcast(operands);
  const Shape shape = sample_shape(dims);
  if (element_count(shape) > kMostItems) return false;
  const DType dtype = is_test(importer.node().type)     ? DType::kBool
                      : importer.node().type == "Where" ? operands[1].dtype
                                                        : operands[0].dtype;
  std::vector<Item> result;
  for (std::size_t at = 0; at < static_cast<std::size_t>(element_count(shape)); ++at) {
    std::vector<Item> x;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      x.push_back(items[i][source(at, operands[i].shape(), shape)]);
    }
    const auto y = function->second(x);
    if (!y) return false;
    result.push_back({as_type(y->number, dtype), y->batch});
  }
  importer.out(items_value(dtype, dims, std::move(result)));
  return true;
}

}  // namespace graphpipe::onnx_import

#include "equivalence/random_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/counter_random.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kWidth = 6;
constexpr std::int64_t kEntries = 30;
constexpr int kOps = 12;
constexpr int kReaders = 2;

class RandomGraph {
 public:
  explicit RandomGraph(const RandomGraphOptions& options)
      : options_(options), random_(options.seed), g_("random") {}

  Graph build() {
    x_ = g_.input("x", {kWidth});
    target_ = g_.input("target", {kWidth});
    label_ = g_.input("label", DType::kInt64, {});
    add_tensor(g_.linear("fc", x_, kWidth));
    if (options_.tied) add_tied();
    add_tensor(bag());
    add_tensor(frozen_branch());
    for (int i = 0; i < kOps; ++i) add_op(fmt::format("op{}", i));
    middle_loss("middle", 0.3, Normaliser::kMeanOverSamples);
    if (below(2) == 0) middle_loss("sum", 0.02, Normaliser::kSum);
    g_.metric("middle", "mean", g_.mse_loss("measured", any(), target_));
    g_.linear("unused", any(), 3);
    finish();
    return std::move(g_).build();
  }

 private:
  struct Value {
    TensorId tensor;
    int readers = 0;
  };

  std::size_t below(std::uint64_t kinds) {
    return static_cast<std::size_t>(random_.below(draws_++, kinds));
  }

  void add_tensor(TensorId tensor) { values_.push_back({tensor}); }

  // A tensor that may have one more reader; the older ones are there for skips.
  TensorId take() {
    std::vector<std::size_t> free;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (values_[i].readers < kReaders) free.push_back(i);
    }
    Value& value = values_[free[below(free.size())]];
    ++value.readers;
    return value.tensor;
  }

  // For readers without a gradient, of which there may be any number.
  TensorId any() { return values_[below(values_.size())].tensor; }

  // At least two, near each other, so that some cut leaves them together.
  void add_tied() {
    tied_ = g_.param("tied.weight", {kWidth, kWidth}, {InitKind::kUniform, 0.4});
    add_tensor(linear("tied1", take(), tied_));
    add_tensor(linear("tied2", take(), tied_));
  }

  TensorId bag() {
    const TensorId ids = g_.input("ids", DType::kInt64, {4});
    const TensorId some = g_.slice("ids.some", ids, 0, 1, 2);
    const TensorId bag = g_.embedding_bag("bag", some, kEntries, kWidth, "mean");
    const TensorId rows = g_.embedding("rows", some, kEntries, kWidth);
    return g_.add("ids.add", {bag, g_.mean("rows.mean", rows, 0)});
  }

  TensorId linear(const std::string& name, TensorId x, ParamId weight) {
    return g_.add_op(name, OpKind::kLinear, {x}, {weight}, {})[0];
  }

  ParamId frozen(const std::string& name) {
    return g_.param(name + ".weight", {kWidth, kWidth}, {InitKind::kUniform, 0.4}, false);
  }

  // No gradient goes in.
  TensorId frozen_branch() {
    const TensorId h = g_.relu("frozen.relu", linear("frozen.fc1", x_, frozen("frozen.fc1")));
    return linear("frozen.fc2", h, frozen("frozen.fc2"));
  }

  void add_op(const std::string& name) {
    switch (below(options_.tied ? 8 : 7)) {
      case 0:
        return add_tensor(g_.linear(name, take(), kWidth));
      case 1:
        return add_tensor(linear(name, take(), frozen(name)));
      case 2:
        return add_tensor(g_.gelu(name, take()));
      case 3:
        return add_tensor(g_.layer_norm(name, take()));
      case 4:
        return add_tensor(g_.dropout(name, take(), 0.2));
      case 5:
        return add_two(name);
      case 6:
        return middle_loss(name, 0.1, Normaliser::kMeanOverSamples);
      default:
        return add_tensor(linear(name, take(), tied_));
    }
  }

  void add_two(const std::string& name) {
    const TensorId a = take();
    const TensorId b = take();
    add_tensor(below(2) == 0 ? g_.add(name, {a, b}) : g_.mul(name, a, b));
  }

  void middle_loss(const std::string& name, double weight, Normaliser normaliser) {
    g_.loss(g_.mse_loss(name, take(), target_), weight, normaliser);
  }

  // What nothing has read ends in one sum, but for one tensor.
  void finish() {
    std::vector<TensorId> ends;
    for (const Value& value : values_) {
      if (value.readers == 0) ends.push_back(value.tensor);
    }
    if (ends.size() > 2) ends.erase(ends.begin() + static_cast<std::ptrdiff_t>(below(2)));
    while (ends.size() < 2) ends.push_back(take());
    const TensorId logits = g_.linear("logits", g_.add("joined", ends), 3);
    g_.loss(g_.cross_entropy("end", logits, label_), 0.7);
    g_.metric("accuracy", "mean", g_.correct("correct", logits, label_));
  }

  RandomGraphOptions options_;
  CounterRandom random_;
  std::uint64_t draws_ = 0;
  GraphBuilder g_;
  TensorId x_;
  TensorId target_;
  TensorId label_;
  ParamId tied_;
  std::vector<Value> values_;
};

}  // namespace

Graph random_graph(const RandomGraphOptions& options) { return RandomGraph(options).build(); }

}  // namespace graphpipe

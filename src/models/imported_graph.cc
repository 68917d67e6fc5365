#include "models/imported_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <queue>

#include "base/error.h"
#include "base/text.h"

namespace graphpipe {
namespace {

constexpr double kBytesPerElement = 4;  // float32

// All profiles known are between 0.1 and 21; the same with a unit wrong by 1000 are outside.
constexpr double kLinkBytesPerS = 12.5e9;
constexpr double kMostComputeOverLink = 100;
constexpr double kLeastComputeOverLink = 0.02;

std::int64_t elements_of(double bytes) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(bytes / kBytesPerElement)));
}

class Assembly {
 public:
  Assembly(const ImportedGraph& imported, const std::string& where)
      : imported_(imported), where_(where) {}

  Graph graph() {
    graph_.name = imported_.name;
    if (imported_.ops.empty()) throw InputError(where_, "there is no operator in it");
    link();
    const std::vector<std::size_t> order = running_order();
    add_input();
    for (const std::size_t i : order) add_op(i);
    validate(graph_, where_);
    return std::move(graph_);
  }

 private:
  void link() {
    made_.resize(imported_.ops.size());
    read_.resize(imported_.ops.size());
    for (std::size_t t = 0; t < imported_.tensors.size(); ++t) {
      made_[imported_.tensors[t].producer].push_back(t);
      for (const std::size_t c : imported_.tensors[t].consumers) read_[c].push_back(t);
    }
  }

  std::vector<std::size_t> running_order() const {
    std::vector<std::size_t> waits(imported_.ops.size());
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < waits.size(); ++i) {
      waits[i] = read_[i].size();
      if (waits[i] == 0) ready.push(i);
    }
    std::vector<std::size_t> order;
    while (!ready.empty()) {
      const std::size_t i = ready.top();
      ready.pop();
      order.push_back(i);
      for (const std::size_t t : made_[i]) {
        for (const std::size_t c : imported_.tensors[t].consumers) {
          if (--waits[c] == 0) ready.push(c);
        }
      }
    }
    if (order.size() == waits.size()) return order;
    const auto stuck = std::ranges::find_if(waits, [](std::size_t w) { return w > 0; });
    throw InputError(
        where_, fmt::format("the edges make a cycle, which \"{}\" is in or behind; expected none",
                            imported_.ops[static_cast<std::size_t>(stuck - waits.begin())].name));
  }

  TensorId add_tensor(std::string name, std::vector<std::int64_t> shape, OpId producer) {
    graph_.tensors.push_back({std::move(name), DType::kFloat32, true, std::move(shape), producer});
    return TensorId(graph_.tensors.size() - 1);
  }

  void add_input() {
    input_ = add_tensor("input", {1}, OpId());
    graph_.inputs = {input_};
    ids_.resize(imported_.tensors.size());
  }

  void add_param(Operator& op, std::string_view what, double bytes, bool trainable) {
    graph_.params.push_back({fmt::format("{}.{}", op.name, what),
                             DType::kFloat32,
                             {elements_of(bytes)},
                             {},
                             trainable});
    op.params.emplace_back(graph_.params.size() - 1);
  }

  void add_op(std::size_t i) {
    const ImportedOp& from = imported_.ops[i];
    const OpId id(graph_.ops.size());
    Operator op;
    op.name = from.name;
    op.kind = OpKind::kOpaque;
    for (const std::size_t t : read_[i]) op.inputs.push_back(ids_[t]);
    const bool source = op.inputs.empty();
    if (source) op.inputs = {input_};
    if (from.params_bytes > 0 || source) add_param(op, "params", from.params_bytes, true);
    if (from.fixed_bytes > 0) add_param(op, "fixed", from.fixed_bytes, false);
    std::vector<std::int64_t> elements;
    for (const std::size_t t : made_[i]) {
      elements.push_back(elements_of(imported_.tensors[t].bytes));
      ids_[t] = add_tensor(
          elements.size() == 1 ? from.name : fmt::format("{}:{}", from.name, elements.size()),
          {elements.back()}, id);
      op.outputs.push_back(ids_[t]);
    }
    const bool sink = std::ranges::all_of(
        made_[i], [&](std::size_t t) { return imported_.tensors[t].consumers.empty(); });
    if (sink) {
      op.outputs.push_back(add_tensor(from.name + ":loss", {}, id));
      graph_.losses.push_back({op.outputs.back()});
    }
    op.attributes = {{"backward_s", from.backward_s},
                     {"elements", std::move(elements)},
                     {"forward_s", from.forward_s},
                     {"loss", sink},
                     {"saved_bytes", static_cast<std::int64_t>(std::ceil(from.saved_bytes))}};
    graph_.ops.push_back(std::move(op));
  }

  const ImportedGraph& imported_;
  const std::string& where_;
  std::vector<std::vector<std::size_t>> made_;  // [op]: its tensors
  std::vector<std::vector<std::size_t>> read_;
  std::vector<TensorId> ids_;
  TensorId input_;
  Graph graph_;
};

}  // namespace

Graph opaque_graph(const ImportedGraph& imported, const std::string& where) {
  return Assembly(imported, where).graph();
}

bool is_imported(const Graph& graph) {
  return std::ranges::any_of(graph.ops,
                             [](const Operator& op) { return op.kind == OpKind::kOpaque; });
}

std::vector<std::string> import_notes(const Graph& graph) {
  if (!is_imported(graph)) return {};
  std::vector<std::string> notes = {
      "costs are those of the imported profile: a sample is one profiled micro-batch"};
  double compute_s = 0;
  double bytes = 0;
  for (const Operator& op : graph.ops) {
    if (op.kind != OpKind::kOpaque) continue;
    compute_s += op.number("forward_s") + op.number("backward_s");
    for (const TensorId out : op.outputs) {
      bytes += static_cast<double>(tensor_bytes(graph.tensor(out), 1));
    }
  }
  const double link_s = bytes / kLinkBytesPerS;
  const double ratio = compute_s / link_s;
  if (graph.op_count() < 2 || (ratio <= kMostComputeOverLink && ratio >= kLeastComputeOverLink)) {
    return notes;
  }
  notes.push_back(
      fmt::format("a sample computes for {} and its tensors take {} over a link of 100 Gb/s, a "
                  "ratio of {:.3g}: "
                  "a unit may be wrong (see FILE:time-unit=ms and FILE:edge-unit=s)",
                  seconds_text(compute_s), seconds_text(link_s), ratio));
  return notes;
}

double figure(const JsonReader& json, double most) {
  const double value = json.number_at_least(0);
  if (value > most) json.fail(fmt::format("expected at most {:g}, found {:g}", most, value));
  return value;
}

}  // namespace graphpipe

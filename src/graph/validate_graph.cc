// The invariants of graph.h, one function each.

#include <fmt/format.h>

#include <cmath>
#include <unordered_set>

#include "base/error.h"
#include "base/utf8.h"
#include "graph/graph.h"

namespace graphpipe {
namespace {

constexpr std::size_t kMaxDimensions = 8;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;
// Which operators come after which takes a bit a pair: a gigabyte.
constexpr std::size_t kMaxOps = 100'000;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

// "batched float32 (256, 1024)"
std::string type_text(const Tensor& tensor) {
  return fmt::format("{}{} {}", tensor.batched ? "batched " : "", dtype_name(tensor.dtype),
                     shape_text(tensor.shape));
}

class Validator {
 public:
  Validator(const Graph& graph, const std::string& where) : graph_(graph), where_(where) {}

  void run() {
    check_size();                // G1
    check_ids();                 // G1
    check_names();               // G1
    check_shapes();              // G2
    check_kinds();               // G3
    check_running_statistics();  // G3
    check_owners();              // G4
    check_order();               // G5
    check_outputs();             // G6
    check_losses();              // G7
    check_metrics();             // G7
  }

 private:
  std::string place(std::string_view list, std::size_t i) const {
    return fmt::format("{}{}/{}/{}", where_, where_.empty() ? "" : ": ", list, i);
  }

  [[noreturn]] void fail(std::string_view list, std::size_t i, const std::string& what) const {
    throw InputError(place(list, i), what);
  }

  template <typename Tag>
  void check_id(std::string_view list, std::size_t i, std::string_view what, Id<Tag> id,
                std::size_t count) const {
    if (id.valid() && id.index() < count) return;
    fail(list, i, fmt::format("G1: {} is {}, and there are {} (from 0)", what, id.value, count));
  }

  void check_size() const {
    if (graph_.ops.size() <= kMaxOps) return;
    throw InputError(
        where_ + (where_.empty() ? "/ops" : ": /ops"),
        fmt::format("G1: {} operators, expected at most {}", graph_.ops.size(), kMaxOps));
  }

  void check_ids() const {
    const std::size_t tensors = graph_.tensors.size();
    for (std::size_t i = 0; i < tensors; ++i) {
      const OpId producer = graph_.tensors[i].producer;
      if (producer != OpId()) check_id("tensors", i, "the producer", producer, graph_.ops.size());
    }
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Operator& op = graph_.ops[i];
      for (const TensorId t : op.inputs) check_id("ops", i, "an input", t, tensors);
      for (const ParamId p : op.params) {
        check_id("ops", i, "a parameter", p, graph_.params.size());
      }
      for (const TensorId t : op.outputs) check_id("ops", i, "an output", t, tensors);
    }
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      check_id("inputs", i, "the tensor", graph_.inputs[i], tensors);
    }
    for (std::size_t i = 0; i < graph_.losses.size(); ++i) {
      check_id("losses", i, "the tensor", graph_.losses[i].tensor, tensors);
    }
    for (std::size_t i = 0; i < graph_.metrics.size(); ++i) {
      check_id("metrics", i, "the tensor", graph_.metrics[i].tensor, tensors);
    }
  }

  template <typename T>
  void check_names_of(std::string_view list, const std::vector<T>& things) const {
    std::unordered_set<std::string_view> seen;
    for (std::size_t i = 0; i < things.size(); ++i) {
      if (things[i].name.empty()) fail(list, i, "G1: the name is empty");
      if (!is_utf8(things[i].name)) fail(list, i, "G1: the name is not UTF-8");
      if (!seen.insert(things[i].name).second) {
        fail(list, i,
             fmt::format("G1: the name \"{}\" is taken by an earlier one of {}", things[i].name,
                         list));
      }
    }
  }

  void check_names() const {
    check_names_of("tensors", graph_.tensors);
    check_names_of("params", graph_.params);
    check_names_of("ops", graph_.ops);
  }

  void check_shape(std::string_view list, std::size_t i, const std::string& name,
                   const std::vector<std::int64_t>& shape) const {
    bool positive = true;
    for (const std::int64_t dimension : shape) positive = positive && dimension > 0;
    if (positive && shape.size() <= kMaxDimensions && element_count(shape) <= kMaxElements) return;
    fail(list, i,
         fmt::format("G2: \"{}\" has shape {}, expected at most {} dimensions, all "
                     "positive, and at most 2^40 elements",
                     name, shape_text(shape), kMaxDimensions));
  }

  void check_shapes() const {
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      check_shape("tensors", i, graph_.tensors[i].name, graph_.tensors[i].shape);
    }
    for (std::size_t i = 0; i < graph_.params.size(); ++i) {
      check_shape("params", i, graph_.params[i].name, graph_.params[i].shape);
      check_values(i);
    }
  }

  void check_values(std::size_t i) const {
    const Parameter& param = graph_.params[i];
    const bool given = param.init.kind == InitKind::kGiven;
    const auto expected = static_cast<std::size_t>(param_bytes(param));
    if (param.values && (!given || param.values->size() != expected)) {
      fail("params", i,
           fmt::format("G2: \"{}\" has {} bytes of values, expected {}", param.name,
                       param.values->size(), given ? expected : 0));
    }
    if (!is_floating(param.dtype) && (!given || param.trainable)) {
      fail("params", i,
           fmt::format("G2: \"{}\" is {}, expected values that are given and not trained",
                       param.name, dtype_name(param.dtype)));
    }
  }

  void check_kinds() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Operator& op = graph_.ops[i];
      inferred_.push_back(infer_outputs(graph_, op, place("ops", i)));
      if (op.outputs.size() != inferred_.back().size()) {
        fail("ops", i,
             fmt::format("G3: {} has {} output{}, found {}", op_kind_name(op.kind),
                         inferred_.back().size(), inferred_.back().size() == 1 ? "" : "s",
                         op.outputs.size()));
      }
    }
  }

  // Another holder, in another stage, would not see them move.
  void check_running_statistics() const {
    std::vector<int> holders(graph_.params.size(), 0);
    for (const Operator& op : graph_.ops) {
      for (const ParamId p : op.params) ++holders[p.index()];
    }
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Operator& op = graph_.ops[i];
      if (op.kind != OpKind::kBatchNorm) continue;
      for (const ParamId p : {op.params[2], op.params[3]}) {
        if (holders[p.index()] == 1) continue;
        fail(
            "ops", i,
            fmt::format("G3: batch_norm: \"{}\" is held elsewhere too, expected running statistics "
                        "of its own",
                        graph_.param(p).name));
      }
    }
  }

  void check_owners() const {
    // How often each tensor stands as an input of the graph or an output of its producer.
    std::vector<int> owners(graph_.tensors.size(), 0);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      for (const TensorId t : graph_.ops[i].outputs) {
        if (graph_.tensor(t).producer != OpId(i)) {
          fail(
              "ops", i,
              fmt::format("G4: output \"{}\" belongs to {}", graph_.tensor(t).name, owner_text(t)));
        }
        if (++owners[t.index()] > 1) {
          fail("ops", i,
               fmt::format("G4: output \"{}\" stands there twice", graph_.tensor(t).name));
        }
      }
    }
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      const TensorId t = graph_.inputs[i];
      if (graph_.tensor(t).producer.valid()) {
        fail("inputs", i,
             fmt::format("G4: \"{}\" belongs to {}", graph_.tensor(t).name, owner_text(t)));
      }
      if (++owners[t.index()] > 1) {
        fail("inputs", i, fmt::format("G4: \"{}\" stands there twice", graph_.tensor(t).name));
      }
    }
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (owners[i] == 1) continue;
      fail("tensors", i,
           fmt::format("G4: \"{}\" is neither an output of its producer nor an "
                       "input of the graph",
                       graph_.tensors[i].name));
    }
  }

  std::string owner_text(TensorId t) const {
    const OpId producer = graph_.tensor(t).producer;
    if (!producer.valid()) return "no operator: it has no producer";
    return fmt::format("operator \"{}\", its producer", graph_.op(producer).name);
  }

  void check_order() const {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      for (const TensorId t : graph_.ops[i].inputs) {
        const OpId producer = graph_.tensor(t).producer;
        if (!producer.valid() || producer < OpId(i)) continue;
        fail("ops", i,
             fmt::format("G5: \"{}\" reads \"{}\" of operator \"{}\", which does not "
                         "stand before it; sort the operators, or break the cycle",
                         graph_.ops[i].name, graph_.tensor(t).name, graph_.op(producer).name));
      }
    }
  }

  void check_outputs() const {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      for (std::size_t o = 0; o < inferred_[i].size(); ++o) {
        const Tensor& expected = inferred_[i][o];
        const Tensor& found = graph_.tensor(graph_.ops[i].outputs[o]);
        if (found.dtype == expected.dtype && found.batched == expected.batched &&
            found.shape == expected.shape) {
          continue;
        }
        fail("ops", i,
             fmt::format("G6: output \"{}\" is {}, expected {}", found.name, type_text(found),
                         type_text(expected)));
      }
    }
  }

  void check_scalar(std::string_view list, std::size_t i, TensorId t) const {
    const Tensor& tensor = graph_.tensor(t);
    if (tensor.batched && is_floating(tensor.dtype) && tensor.shape.empty()) return;
    fail(list, i,
         fmt::format("G7: \"{}\" is {}, expected one floating number a sample: batched "
                     "float32 () or float64 ()",
                     tensor.name, type_text(tensor)));
  }

  void check_losses() const {
    for (std::size_t i = 0; i < graph_.losses.size(); ++i) {
      check_scalar("losses", i, graph_.losses[i].tensor);
      if (std::isfinite(graph_.losses[i].weight)) continue;
      fail("losses", i,
           fmt::format("G7: the weight is {}, expected a finite number", graph_.losses[i].weight));
    }
  }

  void check_metrics() const {
    for (std::size_t i = 0; i < graph_.metrics.size(); ++i) {
      const Metric& metric = graph_.metrics[i];
      check_scalar("metrics", i, metric.tensor);
      if (metric.kind == "mean" || metric.kind == "root_mean") continue;
      fail("metrics", i,
           fmt::format("G7: the kind is \"{}\", expected \"mean\" or \"root_mean\"", metric.kind));
    }
    check_metric_names();
  }

  void check_metric_names() const {
    std::unordered_set<std::string_view> seen;
    for (std::size_t i = 0; i < graph_.metrics.size(); ++i) {
      const std::string& name = graph_.metrics[i].name;
      if (name.empty()) fail("metrics", i, "G7: the name is empty");
      if (!seen.insert(name).second) {
        fail("metrics", i, fmt::format("G7: the name \"{}\" is taken by an earlier metric", name));
      }
    }
  }

  const Graph& graph_;
  const std::string& where_;
  std::vector<std::vector<Tensor>> inferred_;  // [op][output]; from G3 on
};

}  // namespace

void validate(const Graph& graph, const std::string& where) { Validator(graph, where).run(); }

}  // namespace graphpipe

#include "graph/custom_op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <mutex>
#include <stdexcept>

#include "base/error.h"
#include "graph/shape_rule.h"

namespace graphpipe {
namespace {

// Entries stay where they are, so that who has found one needs no lock.
class Registry {
 public:
  void add(CustomOp op) {
    const std::lock_guard lock(mutex_);
    const std::string name = op.name;
    if (!ops_.try_emplace(name, std::move(op)).second) {
      throw InputError(name, "there is already a custom operator of this name");
    }
  }
  const CustomOp* find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = ops_.find(name);
    return found == ops_.end() ? nullptr : &found->second;
  }
  std::vector<std::string> names() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> result;
    for (const auto& [name, op] : ops_) result.push_back(name);
    return result;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, CustomOp> ops_;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

void register_custom_op(CustomOp op) {
  const std::string where = op.name.empty() ? "a custom operator" : op.name;
  if (op.name.empty()) throw InputError(where, "the name is empty");
  if (!op.outputs) throw InputError(where, "a custom operator needs a function for its outputs");
  if (!op.forward) throw InputError(where, "a custom operator needs a forward");
  registry().add(std::move(op));
}

const CustomOp& custom_op(const Operator& op, const std::string& where) {
  const std::string& name = op.text("function");
  if (const CustomOp* found = registry().find(name)) return *found;
  const std::vector<std::string> names = registry().names();
  throw InputError(
      where,
      fmt::format("G3: custom: this program has no operator \"{}\"{}; only a program that "
                  "registers it can plan, profile and train the graph (docs/api.md)",
                  name, names.empty() ? "" : fmt::format(", it has {}", fmt::join(names, ", "))));
}

const CustomOp& custom_op(const Operator& op) {
  const CustomOp* found = registry().find(op.text("function"));
  GP_CHECK(found != nullptr, "no custom operator \"{}\"", op.text("function"));
  return *found;
}

bool passes_gradient(const Operator& op) {
  if (op.kind == OpKind::kCustom) return static_cast<bool>(custom_op(op).backward);
  return op.kind != OpKind::kCorrect;
}

CustomTypes custom_types(const Graph& graph, const Operator& op) {
  CustomTypes types{op, {}, {}};
  for (const TensorId id : op.inputs) {
    const Tensor& tensor = graph.tensor(id);
    types.inputs.push_back({tensor.dtype, tensor.shape, tensor.batched});
  }
  for (const ParamId id : op.params) {
    const Parameter& param = graph.param(id);
    types.params.push_back({param.dtype, param.shape, false});
  }
  return types;
}

std::vector<Tensor> custom_outputs(const Graph& graph, const ShapeRule& r,
                                   const std::string& where) {
  const CustomOp& own = custom_op(r.op(), where);
  std::vector<TensorType> types;
  try {
    types = own.outputs(custom_types(graph, r.op()));
  } catch (const std::invalid_argument& refused) {
    r.fail(fmt::format("{}: {}", own.name, refused.what()));
  }
  if (types.empty()) r.fail(own.name + " has no output, expected at least one");
  std::vector<Tensor> outputs;
  for (TensorType& type : types) {
    outputs.push_back(r.result(type.dtype, std::move(type.shape))[0]);
  }
  return outputs;
}

}  // namespace graphpipe

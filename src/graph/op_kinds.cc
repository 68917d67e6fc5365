#include "graph/op_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "graph/op_rules.h"

namespace graphpipe {
namespace {

std::vector<AttributeRule> convolution_attributes() {
  using enum AttributeType;
  return {{"dilation", kList}, {"groups", kInteger}, {"padding", kList}, {"stride", kList}};
}

std::vector<AttributeRule> pool_attributes() {
  using enum AttributeType;
  return {{"kernel", kList}, {"padding", kList}, {"stride", kList}};
}

OpRules make_rules(OpKind kind) {
  using enum AttributeType;
  switch (kind) {
    case OpKind::kLinear:
      return {"linear", 1, 1, 1, 2, {}};
    case OpKind::kMatmul:
      return {"matmul", 2, 2, 0, 0, {{"transpose_b", kFlag}}};
    case OpKind::kAttention:
      return {"attention", 1, 1, 4, 4, {{"causal", kFlag}, {"heads", kInteger}}};
    case OpKind::kLayerNorm:
      return {"layer_norm", 1, 1, 2, 2, {{"epsilon", kNumber}}};
    case OpKind::kSoftmax:
      return {"softmax", 1, 1, 0, 0, {}};
    case OpKind::kGelu:
      return {"gelu", 1, 1, 0, 0, {}};
    case OpKind::kRelu:
      return {"relu", 1, 1, 0, 0, {}};
    case OpKind::kSigmoid:
      return {"sigmoid", 1, 1, 0, 0, {}};
    case OpKind::kTanh:
      return {"tanh", 1, 1, 0, 0, {}};
    case OpKind::kAdd:
      return {"add", 2, kAnyCount, 0, 0, {}};
    case OpKind::kMul:
      return {"mul", 2, 2, 0, 0, {}};
    case OpKind::kAddParameter:
      return {"add_parameter", 1, 1, 1, 1, {}};
    case OpKind::kConcat:
      return {"concat", 2, kAnyCount, 0, 0, {{"axis", kInteger}}};
    case OpKind::kEmbedding:
      return {"embedding", 1, 1, 1, 1, {}};
    case OpKind::kEmbeddingBag:
      return {"embedding_bag", 1, 1, 1, 1, {{"mode", kText}}};
    case OpKind::kDropout:
      return {"dropout", 1, 1, 0, 0, {{"rate", kNumber}}};
    case OpKind::kReshape:
      return {"reshape", 1, 1, 0, 0, {{"shape", kList}}};
    case OpKind::kTranspose:
      return {"transpose", 1, 1, 0, 0, {{"permutation", kList}}};
    case OpKind::kSlice:
      return {"slice", 1, 1, 0, 0, {{"axis", kInteger}, {"length", kInteger}, {"start", kInteger}}};
    case OpKind::kSplit:
      return {"split", 1, 1, 0, 0, {{"axis", kInteger}, {"sizes", kList}}};
    case OpKind::kPad:
      return {"pad", 1, 1, 0, 0, {{"after", kList}, {"before", kList}, {"value", kNumber}}};
    case OpKind::kConv1d:
      return {"conv1d", 1, 1, 1, 2, convolution_attributes()};
    case OpKind::kConv2d:
      return {"conv2d", 1, 1, 1, 2, convolution_attributes()};
    case OpKind::kConvTranspose2d: {
      std::vector<AttributeRule> attributes = convolution_attributes();
      attributes.insert(attributes.begin() + 2, {"output_padding", kList});
      return {"conv_transpose2d", 1, 1, 1, 2, std::move(attributes)};
    }
    case OpKind::kMaxPool2d:
      return {"max_pool2d", 1, 1, 0, 0, pool_attributes()};
    case OpKind::kAvgPool2d:
      return {"avg_pool2d", 1, 1, 0, 0, pool_attributes()};
    case OpKind::kGlobalAvgPool:
      return {"global_avg_pool", 1, 1, 0, 0, {}};
    case OpKind::kResize:
      return {"resize", 1, 1, 0, 0, {{"mode", kText}, {"size", kList}}};
    case OpKind::kBatchNorm:
      return {"batch_norm", 1, 1, 4, 4, {{"epsilon", kNumber}, {"momentum", kNumber}}};
    case OpKind::kLstm:
      return {"lstm", 1, 1, 4, 4, {}};
    case OpKind::kGru:
      return {"gru", 1, 1, 4, 4, {}};
    case OpKind::kMean:
      return {"mean", 1, 1, 0, 0, {{"axis", kInteger}}};
    case OpKind::kElementwise:
      return {"elementwise",
              1,
              kAnyCount,
              0,
              kAnyCount,
              {{"alpha", kNumber}, {"beta", kNumber}, {"function", kText}, {"operands", kList}}};
    case OpKind::kReduce:
      return {"reduce", 1, 1, 0, 0, {{"axes", kList}, {"function", kText}, {"keep", kFlag}}};
    case OpKind::kAlongAxis:
      return {"along_axis", 1, 1, 0, 0, {{"axis", kInteger}, {"function", kText}}};
    case OpKind::kGather:
      return {"gather", 1, 2, 0, 2, {{"axis", kInteger}, {"mode", kText}, {"operands", kList}}};
    case OpKind::kExpand:
      return {"expand", 1, 1, 0, 0, {{"shape", kList}}};
    case OpKind::kMseLoss:
      return {"mse_loss", 2, 2, 0, 0, {}};
    case OpKind::kCrossEntropy:
      return {"cross_entropy", 2, 2, 0, 0, {}};
    case OpKind::kBinaryCrossEntropy:
      return {"binary_cross_entropy", 2, 2, 0, 0, {}};
    case OpKind::kCorrect:
      return {"correct", 2, 2, 0, 0, {}};
    case OpKind::kOpaque:
      return {"opaque",
              1,
              kAnyCount,
              0,
              kAnyCount,
              {{"backward_s", kNumber},
               {"elements", kList},
               {"forward_s", kNumber},
               {"loss", kFlag},
               {"saved_bytes", kInteger}}};
    case OpKind::kCustom:
      return {"custom", 1, kAnyCount, 0, kAnyCount, {{"function", kText}}, true};
  }
  GP_CHECK(false, "operator kind {}", static_cast<int>(kind));
}

// "1", "1 to 2", "2 or more"
std::string range_text(int low, int high) {
  if (high == kAnyCount) return fmt::format("{} or more", low);
  return low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high);
}

void check_count(const Operator& op, std::string_view what, std::size_t found, int low, int high,
                 const std::string& where) {
  if (found >= static_cast<std::size_t>(low) && found <= static_cast<std::size_t>(high)) return;
  throw InputError(where, fmt::format("G3: {} has {} {}, found {}", op_kind_name(op.kind),
                                      range_text(low, high), what, found));
}

const AttributeRule* find_rule(const OpRules& rules, std::string_view name) {
  const auto rule = std::find_if(rules.attributes.begin(), rules.attributes.end(),
                                 [&](const AttributeRule& r) { return r.name == name; });
  return rule == rules.attributes.end() ? nullptr : &*rule;
}

void check_attribute(const Operator& op, const OpRules& rules, const std::string& name,
                     const Attribute& value, const std::string& where) {
  const AttributeRule* rule = find_rule(rules, name);
  if (rule == nullptr && rules.more_attributes) return;
  if (rule == nullptr) {
    std::vector<std::string> known;
    for (const AttributeRule& r : rules.attributes) known.emplace_back(r.name);
    throw InputError(
        where, fmt::format("G3: {} has no attribute \"{}\"; it has {}", op_kind_name(op.kind), name,
                           known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }
  if (type_of(value) != rule->type) {
    throw InputError(where, fmt::format("G3: attribute \"{}\" of {} is {}, found {}", name,
                                        op_kind_name(op.kind), attribute_type_name(rule->type),
                                        attribute_text(value)));
  }
}

void check_attributes(const Operator& op, const OpRules& rules, const std::string& where) {
  for (std::size_t i = 0; i < op.attributes.size(); ++i) {
    const auto& [name, value] = op.attributes[i];
    check_attribute(op, rules, name, value, where);
    if (i > 0 && op.attributes[i - 1].first >= name) {
      throw InputError(where, fmt::format("G3: attributes are sorted by name and not repeated; "
                                          "\"{}\" stands after \"{}\"",
                                          name, op.attributes[i - 1].first));
    }
  }
  for (const AttributeRule& rule : rules.attributes) {
    const bool there = std::any_of(op.attributes.begin(), op.attributes.end(),
                                   [&](const auto& a) { return a.first == rule.name; });
    if (there) continue;
    throw InputError(where, fmt::format("G3: {} needs attribute \"{}\", {}", op_kind_name(op.kind),
                                        rule.name, attribute_type_name(rule.type)));
  }
}

}  // namespace

const OpRules& op_rules(OpKind kind) {
  static const std::array<OpRules, kOpKindCount> kRules = [] {
    std::array<OpRules, kOpKindCount> rules;
    for (int i = 0; i < kOpKindCount; ++i) {
      rules[static_cast<std::size_t>(i)] = make_rules(static_cast<OpKind>(i));
    }
    return rules;
  }();
  return kRules.at(static_cast<std::size_t>(kind));
}

std::string_view op_kind_name(OpKind kind) { return op_rules(kind).name; }

std::optional<OpKind> parse_op_kind(std::string_view name) {
  for (int i = 0; i < kOpKindCount; ++i) {
    if (op_kind_name(static_cast<OpKind>(i)) == name) return static_cast<OpKind>(i);
  }
  return std::nullopt;
}

bool mixes_samples(OpKind kind) { return kind == OpKind::kBatchNorm; }

std::string_view attribute_type_name(AttributeType type) {
  switch (type) {
    case AttributeType::kFlag:
      return "true or false";
    case AttributeType::kInteger:
      return "a whole number";
    case AttributeType::kNumber:
      return "a number";
    case AttributeType::kText:
      return "a string";
    case AttributeType::kList:
      return "a list of whole numbers";
  }
  GP_CHECK(false, "attribute type {}", static_cast<int>(type));
}

AttributeType type_of(const Attribute& attribute) {
  // In the order of the variant's alternatives.
  static constexpr std::array kTypes{AttributeType::kFlag, AttributeType::kInteger,
                                     AttributeType::kNumber, AttributeType::kText,
                                     AttributeType::kList};
  return kTypes.at(attribute.index());
}

std::string attribute_text(const Attribute& attribute) {
  struct Writer {
    std::string operator()(bool x) const { return x ? "true" : "false"; }
    std::string operator()(std::int64_t x) const { return fmt::format("{}", x); }
    std::string operator()(double x) const { return fmt::format("{}", x); }
    std::string operator()(const std::string& x) const { return fmt::format("\"{}\"", x); }
    std::string operator()(const std::vector<std::int64_t>& x) const {
      return fmt::format("[{}]", fmt::join(x, ", "));
    }
  };
  return std::visit(Writer{}, attribute);
}

void check_arity(const Operator& op, const std::string& where) {
  const OpRules& rules = op_rules(op.kind);
  check_count(op, "inputs", op.inputs.size(), rules.min_inputs, rules.max_inputs, where);
  check_count(op, "parameters", op.params.size(), rules.min_params, rules.max_params, where);
  check_attributes(op, rules, where);
}

}  // namespace graphpipe

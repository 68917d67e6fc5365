// What an operator of a kind looks like: its name, how many inputs and parameters it
// has, and its attributes. The rules for shapes stand in shape_rules.cc.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

enum class AttributeType { kFlag, kInteger, kNumber, kText, kList };

struct AttributeRule {
  std::string_view name;
  AttributeType type = AttributeType::kInteger;
};

struct OpRules {
  std::string_view name;
  int min_inputs = 1;
  int max_inputs = 1;
  int min_params = 0;
  int max_params = 0;
  std::vector<AttributeRule> attributes;  // sorted by name; all must be there
  bool more_attributes = false;           // others may be there too
};

inline constexpr int kAnyCount = 1 << 20;  // the most inputs that an operator may have

const OpRules& op_rules(OpKind kind);

std::string_view attribute_type_name(AttributeType type);  // "a whole number", ...
AttributeType type_of(const Attribute& attribute);
std::string attribute_text(const Attribute& attribute);  // "8", "[2, 3]", "\"sum\"", "true"

// Whether inputs and parameters are as many, and attributes of such types, as the kind
// has them. Throws InputError(where, "G3: ...").
void check_arity(const Operator& op, const std::string& where);

}  // namespace graphpipe

// Fields that several of this room's file forms have.

#pragma once

#include <map>
#include <string>

#include "base/json_reader.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace graphpipe {

// Throw InputError where the value is none.
OptimizerKind read_optimizer(const JsonReader& json);
DType read_floating(const JsonReader& json);

// An object of them, by name.
inline Json numbers_json(const std::map<std::string, double>& numbers) {
  Json json = Json::object();
  for (const auto& [name, value] : numbers) json[name] = value;
  return json;
}

}  // namespace graphpipe

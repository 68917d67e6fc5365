// Fields that several of this room's file forms have.

#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/error.h"
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

// What `read` makes of a line that is a JSON object; of another line, and where it throws
// InputError, what its type is by default.
template <typename Read>
auto read_line(const std::string& line, const Read& read)
    -> decltype(read(std::declval<JsonReader>())) {
  if (!line.starts_with('{')) return {};
  try {
    const Json document = parse_json(line, "a line");
    return read(JsonReader(document, "a line"));
  } catch (const InputError&) {
    return {};  // a line like any other
  }
}

}  // namespace graphpipe

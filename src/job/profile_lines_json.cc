#include "base/error.h"
#include "base/json_reader.h"
#include "job/profile_lines.h"

namespace graphpipe {

std::string to_json_line(const MeasuringLine& line) {
  return Json{{"measuring", line.what}, {"done", line.done}}.dump();
}

std::optional<MeasuringLine> parse_measuring_line(const std::string& line) {
  if (!line.starts_with('{')) return {};
  try {
    const Json document = parse_json(line, "a line");
    const JsonReader json(document, "a line");
    if (!json.has("measuring")) return {};
    return MeasuringLine{json["measuring"].string(), json["done"].number()};
  } catch (const InputError&) {
    return {};  // a line like any other
  }
}

}  // namespace graphpipe

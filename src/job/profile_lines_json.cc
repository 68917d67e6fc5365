#include "job/fields_json.h"
#include "job/profile_lines.h"

namespace graphpipe {

std::string to_json_line(const MeasuringLine& line) {
  return Json{{"measuring", line.what}, {"done", line.done}}.dump();
}

std::optional<MeasuringLine> parse_measuring_line(const std::string& line) {
  return read_line(line, [](const JsonReader& json) -> std::optional<MeasuringLine> {
    if (!json.has("measuring")) return {};
    return MeasuringLine{json["measuring"].string(), json["done"].number()};
  });
}

}  // namespace graphpipe

// What a profile job says meanwhile: one JSON object a line on rank 0's standard output, beside
// lines for people.

#pragma once

#include <optional>
#include <string>

namespace graphpipe {

struct MeasuringLine {
  std::string what;  // is measured next: an operator's signature, "messages between ranks"
  double done = 0;   // the part of all measurements that is behind, 0 to 1
  friend bool operator==(const MeasuringLine&, const MeasuringLine&) = default;
};

// Without the end of the line.
std::string to_json_line(const MeasuringLine& line);
// None where the line is another.
std::optional<MeasuringLine> parse_measuring_line(const std::string& line);

}  // namespace graphpipe

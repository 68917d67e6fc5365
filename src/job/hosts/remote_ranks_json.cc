#include <fmt/format.h>

#include "base/error.h"
#include "base/json_reader.h"
#include "job/hosts/remote_ranks.h"

namespace graphpipe {
namespace {

// The object of that name in a line that is nothing else; null: the line is another.
Json object_in(const std::string& line, const char* name) {
  if (!line.starts_with(fmt::format("{{\"{}\"", name))) return {};
  try {
    const Json document = parse_json(line, "a rank's line");
    return document.is_object() && document.contains(name) ? document.at(name) : Json();
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace

std::string failure_line(const LaunchResult& result) {
  const Json json = {{"failure",
                      {{"exit_code", result.exit_code},
                       {"cause", result.first_cause},
                       {"rank", result.rank},
                       {"peer_lost", result.peer_lost},
                       {"struck", result.struck},
                       {"last_lines", result.last_lines}}}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<LaunchResult> parse_failure_line(const std::string& line) {
  const Json object = object_in(line, "failure");
  if (!object.is_object()) return std::nullopt;
  try {
    const JsonReader json(object, "a rank's last line");
    json.only({"exit_code", "cause", "rank", "peer_lost", "struck", "last_lines"});
    LaunchResult result;
    result.exit_code = json["exit_code"].int_at_least(1);
    result.first_cause = json["cause"].string();
    result.rank = json["rank"].int_at_least(-1);
    result.peer_lost = json["peer_lost"].boolean();
    result.struck = json["struck"].boolean();
    for (const JsonReader& text : json["last_lines"].items()) {
      result.last_lines.push_back(text.string());
    }
    return result;
  } catch (const InputError&) {
    return std::nullopt;  // a line like any other
  }
}

std::optional<std::string> parse_rendezvous_line(const std::string& line) {
  const Json object = object_in(line, "rendezvous");
  return object.is_string() ? std::optional(object.get<std::string>()) : std::nullopt;
}

}  // namespace graphpipe

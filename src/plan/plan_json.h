// The file form of a Plan: NAME.plan.json, described in docs/formats.md. Also what
// `graphpipe plan --json` prints.

#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace graphpipe {

// Reads the fields; call validate() with the graph and cluster afterwards. Throws
// InputError("FILE: /stages/3/devices", ...).
Plan parse_plan(std::string_view json, const std::string& file);

// `graph` names operators and tensors. parse_plan(to_json(p, g)) equals p.
std::string to_json(const Plan& plan, const Graph& graph);

}  // namespace graphpipe

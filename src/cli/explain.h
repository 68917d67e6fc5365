// Why a plan is as it is, for people: plan --explain.

#pragma once

#include <string>

#include "planners/planner.h"
#include "search/search.h"

namespace graphpipe {

// The series-parallel tree; for each stage its time and memory, what limits it, and what one
// operator more would make of it; the candidates that were weighed, by micro-batch size; the
// lower bound's reason. Requires: the result has a plan.
std::string explain_text(const Problem& problem, const SearchResult& result);

}  // namespace graphpipe

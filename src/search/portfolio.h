// The best plan of all planners.

#pragma once

#include <string>
#include <vector>

#include "search/search.h"

namespace graphpipe {

struct PortfolioEntry {
  std::string planner;
  SearchResult result;
};

struct PortfolioResult {
  SearchResult best;                    // its plan names the planner whose it is
  std::vector<PortfolioEntry> entries;  // as the planners were given
};

// Runs search_plan() with every planner and takes the fastest plan; of equal ones that of
// the first planner. So it is never worse than any of them, as far as time allows: of the
// time limit each planner has an equal part of what is left.
PortfolioResult search_portfolio(const std::vector<Planner>& planners, const Problem& problem,
                                 const SearchControl& control = {});

}  // namespace graphpipe

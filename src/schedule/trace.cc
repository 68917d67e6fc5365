#include "schedule/trace.h"

#include <algorithm>

namespace graphpipe {

double Trace::bubble_fraction() const {
  const double available_s = static_cast<double>(ranks.size()) * iteration_s;
  if (available_s <= 0) return 0;
  double busy_s = 0;
  for (const RankUse& rank : ranks) busy_s += rank.busy_s;
  return std::max(0.0, 1 - busy_s / available_s);  // not -1e-17
}

}  // namespace graphpipe

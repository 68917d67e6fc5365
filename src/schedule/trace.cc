#include "schedule/trace.h"

namespace graphpipe {

double Trace::bubble_fraction() const {
  const double available_s = static_cast<double>(ranks.size()) * iteration_s;
  if (available_s <= 0) return 0;
  double busy_s = 0;
  for (const RankUse& rank : ranks) busy_s += rank.busy_s;
  return 1 - busy_s / available_s;
}

}  // namespace graphpipe

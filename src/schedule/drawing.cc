#include "schedule/drawing.h"

#include <fmt/format.h>

#include <algorithm>

namespace graphpipe {
namespace {

// A drawing that fits a terminal: so many actions, and ranks, on either side of the mark.
constexpr std::int64_t kActionsAround = 8;
constexpr std::int64_t kRanksAround = 8;

}  // namespace

std::string draw_marked(const Schedule& schedule, const Plan& plan, RankId rank,
                        std::int64_t position) {
  const auto ranks = static_cast<std::int64_t>(schedule.ranks.size());
  const std::int64_t first_rank = std::max<std::int64_t>(0, rank.value - kRanksAround);
  const std::int64_t last_rank = std::min(ranks - 1, rank.value + kRanksAround);
  std::string text = first_rank > 0 ? "  ...\n" : "";
  for (std::int64_t r = first_rank; r <= last_rank; ++r) {
    std::string line = fmt::format("  rank {}:", r);
    std::size_t mark = std::string::npos;
    std::int64_t at_position = 0;
    for (ActionCursor at(schedule, plan, RankId(static_cast<std::int32_t>(r))); !at.done();
         at.next(), ++at_position) {
      if (at_position < position - kActionsAround) {
        if (at_position == 0) line += " ...";
        continue;
      }
      if (at_position > position + kActionsAround) {
        line += " ...";
        break;
      }
      line += ' ';
      if (at_position == position) mark = line.size();
      line += to_text(at.action(), plan);
    }
    text += line + '\n';
    if (r != rank.value) continue;
    if (mark == std::string::npos) mark = line.size() + 1;
    text += std::string(mark, ' ') + "^ here\n";
  }
  if (last_rank + 1 < ranks) text += "  ...\n";
  text.pop_back();  // messages do not end in a line break
  return text;
}

}  // namespace graphpipe

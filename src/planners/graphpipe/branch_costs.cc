#include "planners/graphpipe/branch_costs.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/numbers.h"

namespace graphpipe {
namespace {

// Eight different branches make 2^8 counts, and as many groups to try for each.
constexpr std::size_t kMostStates = 256;
constexpr int kNoWay = 1 << 24;  // devices; sums of many stay an int

int size_of(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), 0); }

}  // namespace

bool within(const Counts& part, const Counts& whole) {
  for (std::size_t c = 0; c < part.size(); ++c) {
    if (part[c] > whole[c]) return false;
  }
  return true;
}

Counts minus(Counts whole, const Counts& part) {
  for (std::size_t c = 0; c < part.size(); ++c) whole[c] -= part[c];
  return whole;
}

BranchCosts::BranchCosts(const Pieces& pieces, StageTables& tables, const StageCosts& costs,
                         int parallel, int given, double target_s,
                         std::vector<const Frontier*> alone)
    : pieces_(pieces),
      tables_(tables),
      costs_(costs),
      parallel_(parallel),
      given_(given),
      target_s_(target_s),
      alone_(std::move(alone)) {
  for (const int count : pieces.parallel(parallel).class_size) {
    states_ = std::min(states_ * (at(count) + 1), kMostStates + 1);
  }
  exact_ = states_ <= kMostStates;
  exact_ ? list_all_groups() : list_lightest_groups();
}

std::size_t BranchCosts::index_of(const Counts& counts) const {
  const Counts& most = pieces_.parallel(parallel_).class_size;
  std::size_t index = 0;
  for (std::size_t c = 0; c < counts.size(); ++c) index = index * (at(most[c]) + 1) + at(counts[c]);
  return index;
}

void BranchCosts::list_all_groups() {
  const Counts& most = pieces_.parallel(parallel_).class_size;
  Counts group(most.size(), 0);
  while (true) {
    std::size_t c = 0;
    while (c < most.size() && group[c] == most[c]) group[c++] = 0;
    if (c == most.size()) return;
    ++group[c];
    if (size_of(group) > 1 && width_of(group) >= 0) groups_.push_back(group);
  }
}

void BranchCosts::list_lightest_groups() {
  const Counts& most = pieces_.parallel(parallel_).class_size;
  std::vector<int> by_weight(most.size());
  std::iota(by_weight.begin(), by_weight.end(), 0);
  std::ranges::stable_sort(by_weight, {}, [&](int c) { return share_of_device(c); });
  Counts group(most.size(), 0);
  for (const int c : by_weight) {
    for (int i = 0; i < most[at(c)]; ++i) {
      ++group[at(c)];
      if (size_of(group) > 1 && width_of(group) >= 0) groups_.push_back(group);
    }
  }
}

double BranchCosts::share_of_device(int branch_class) {
  Counts one(alone_.size(), 0);
  one[at(branch_class)] = 1;
  const Candidate& branch = tables_.group(parallel_, one, {});
  const auto share = [&](bool recompute) {
    const double time = costs_.tps_s(branch.sums, branch.spans, 0, recompute) / target_s_;
    const std::int64_t bytes =
        costs_.memory_bytes(branch.sums, branch.spans, 0, given_ + 1, recompute);
    return std::max(time,
                    static_cast<double>(bytes) / static_cast<double>(costs_.memory_limit_bytes()));
  };
  return costs_.may_recompute(branch.sums) ? std::min(share(false), share(true)) : share(false);
}

// As one stage; -1: not within the target.
int BranchCosts::width_of(const Counts& group) {
  const auto [found, fresh] = width_of_group_.try_emplace(group, -1);
  if (!fresh) return found->second;
  double tps = 0;
  for (std::size_t c = 0; c < group.size(); ++c) {
    const int line = pieces_.class_line[at(pieces_.parallel(parallel_).classes[c])];
    const Span span = pieces_.line(line).span(0, pieces_.line(line).size());
    tps += group[c] * costs_.compute_tps_s(span, costs_.width_count() - 1);
  }
  if (tps > target_s_ * (1 + 1e-9)) return -1;  // spares the sums
  const Candidate& stage = tables_.group(parallel_, group, {});
  found->second = costs_.least_width(stage.sums, stage.spans, given_ + 1, target_s_);
  return found->second;
}

int BranchCosts::entry_within(int branch_class, int level) const {
  const Frontier& frontier = *alone_[at(branch_class)];
  int entry = -1;
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    if (frontier[i].level <= level) entry = static_cast<int>(i);
  }
  return entry;
}

BranchCosts::Cell& BranchCosts::cell(const Counts& counts, int level) {
  std::vector<Cell>& row = cells_[level];
  if (row.empty()) row.resize(states_);
  Cell& cell = row[index_of(counts)];
  if (cell.devices >= 0) return cell;
  cell.devices = 0;
  const auto first = std::ranges::find_if(counts, [](int n) { return n > 0; });
  if (first == counts.end()) return cell;
  const int c = static_cast<int>(first - counts.begin());
  cell.devices = kNoWay;
  const int entry = entry_within(c, level);
  if (entry >= 0) {
    Counts one(counts.size(), 0);
    one[at(c)] = 1;
    const int devices = (*alone_[at(c)])[at(entry)].devices;
    const int rest = this->cell(minus(counts, one), level).devices;
    if (rest < kNoWay) {
      cell.devices = devices + rest;
      cell.group = {one, entry, -1};
    }
  }
  for (const Counts& group : groups_) {
    if (group[at(c)] == 0 || !within(group, counts)) continue;
    const int width = width_of(group);
    const int devices = costs_.width(width) + this->cell(minus(counts, group), level).devices;
    if (devices < cell.devices) {
      cell.devices = devices;
      cell.group = {group, -1, width};
    }
  }
  return cell;
}

// First-fit-decreasing over what a branch takes of a device. Branches that fill one by
// themselves are planned by themselves.
BranchCosts::Packing BranchCosts::pack(const Counts& counts, int level) {
  std::vector<int> units;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    units.insert(units.end(), at(counts[c]), static_cast<int>(c));
  }
  std::ranges::stable_sort(units,
                           [&](int a, int b) { return share_of_device(a) > share_of_device(b); });
  std::vector<Counts> bins;
  Packing packing;
  const auto add_alone = [&](int c) {
    const int entry = entry_within(c, level);
    Counts one(counts.size(), 0);
    one[at(c)] = 1;
    packing.devices += entry >= 0 ? (*alone_[at(c)])[at(entry)].devices : kNoWay;
    packing.groups.push_back({one, entry, -1});
  };
  for (const int c : units) {
    Counts one(counts.size(), 0);
    one[at(c)] = 1;
    if (width_of(one) != 0) {
      add_alone(c);
      continue;
    }
    const auto bin = std::ranges::find_if(bins, [&](Counts wider) {
      ++wider[at(c)];
      return width_of(wider) == 0;
    });
    bin == bins.end() ? bins.push_back(one) : static_cast<void>(++(*bin)[at(c)]);
  }
  for (const Counts& bin : bins) {
    packing.devices += costs_.width(0);
    packing.groups.push_back({bin, -1, 0});
  }
  packing.devices = std::min(packing.devices, kNoWay);
  return packing;
}

std::vector<int> BranchCosts::levels(const Counts& counts) const {
  std::vector<int> levels = {given_ + 1};
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0) continue;
    for (const Entry& entry : *alone_[c]) levels.push_back(entry.level);
  }
  std::ranges::sort(levels);
  const auto repeats = std::ranges::unique(levels);
  levels.erase(repeats.begin(), repeats.end());
  return levels;
}

const std::vector<BranchEntry>& BranchCosts::costs(const Counts& counts) {
  const auto [found, fresh] = entries_.try_emplace(counts);
  std::vector<BranchEntry>& entries = found->second;
  if (!fresh) return entries;
  if (size_of(counts) == 0) {
    entries.push_back({given_, 0});
    return entries;
  }
  for (const int level : levels(counts)) {
    const int devices = exact_ ? cell(counts, level).devices : pack(counts, level).devices;
    if (devices >= kNoWay || devices > costs_.device_count()) continue;
    if (entries.empty() || devices < entries.back().devices) entries.push_back({level, devices});
  }
  return entries;
}

std::vector<BranchGroup> BranchCosts::partition(const Counts& counts, int level) {
  if (size_of(counts) == 0) return {};
  if (!exact_) return pack(counts, level).groups;
  std::vector<BranchGroup> groups;
  Counts left = counts;
  while (size_of(left) > 0) {
    groups.push_back(cell(left, level).group);
    left = minus(left, groups.back().members);
  }
  return groups;
}

}  // namespace graphpipe

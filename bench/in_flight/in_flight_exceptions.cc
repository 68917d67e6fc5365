// Where other in-flight counts are faster than those of the rule, and by how much: mixed k, and
// random DAGs. Prints two tables.
//
//   in_flight_exceptions [RANDOM_DAGS]

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "in_flight/even_pipeline.h"

namespace graphpipe {
namespace {

constexpr int kMiniBatch = 16;
constexpr int kMostTried = 12;
constexpr int kRandomMiniBatch = 32;
constexpr std::size_t kWorstListed = 12;
constexpr int kRestarts = 4;

struct Case {
  std::string graph;
  std::vector<Turn> turns;
  std::vector<std::int64_t> rule;
  int rule_s = 0;
  int tried_s = 0;  // the best of what a search tries: 1, 2 and 3 hops, and all in flight
  int best_s = 0;
  double rule_cost() const { return static_cast<double>(rule_s) / best_s - 1; }
  double tried_cost() const { return static_cast<double>(tried_s) / best_s - 1; }
};

struct Family {
  std::string name;
  std::vector<Case> cases;
};

// Rule and tried choices of a case; the best is left to the caller.
Case judged_case(const std::string& name, const Dependencies& before, std::vector<Turn> turns,
                 int mini_batch) {
  const TestProblem test = even_pipeline_problem(before, mini_batch);
  EvenPipeline pipeline(before, turns, mini_batch);
  Case one;
  one.graph = name;
  one.rule = counts_of(even_pipeline_plan(test, turns));
  one.rule_s = pipeline.iteration_s(one.rule);
  one.tried_s = std::min(one.rule_s,
                         pipeline.iteration_s(std::vector<std::int64_t>(turns.size(), mini_batch)));
  for (const std::int64_t hops : {2, 3}) {
    one.tried_s = std::min(one.tried_s,
                           pipeline.iteration_s(counts_of(even_pipeline_plan(test, turns, hops))));
  }
  one.turns = std::move(turns);
  return one;
}

// Every choice of counts.
Family small_family(const std::string& name, std::size_t least_stages, std::size_t most_stages,
                    const std::vector<Turn>& choices) {
  Family family{name, {}};
  for (const auto& [graph, before] : small_stage_graphs()) {
    if (before.size() < least_stages || before.size() > most_stages) continue;
    for (const std::vector<Turn>& turns : all_choices(choices, before.size())) {
      Case one = judged_case(graph, before, turns, kMiniBatch);
      EvenPipeline pipeline(before, turns, kMiniBatch);
      one.best_s = best_of_all_counts_s(pipeline, turns, kMostTried, kMiniBatch);
      family.cases.push_back(std::move(one));
    }
  }
  return family;
}

// From the given counts: one stage's count changed at a time, while that is faster.
int descend(EvenPipeline& pipeline, const std::vector<Turn>& turns, int mini_batch,
            std::vector<std::int64_t>& counts) {
  int best_s = pipeline.iteration_s(counts);
  for (bool better = true; better;) {
    better = false;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      const std::int64_t here = counts[s];
      std::int64_t best = here;
      for (std::int64_t n = turns[s].size; n <= mini_batch; n += turns[s].size) {
        counts[s] = n;
        const int seconds = pipeline.iteration_s(counts);
        if (seconds >= best_s) continue;
        best_s = seconds;
        best = n;
        better = true;
      }
      counts[s] = best;
    }
  }
  return best_s;
}

class Drawing {
 public:
  explicit Drawing(std::uint64_t seed) : random_(seed) {}
  int below(int n) {
    return static_cast<int>(random_.below(drawn_++, static_cast<std::uint64_t>(n)));
  }

 private:
  CounterRandom random_;
  std::uint64_t drawn_ = 0;
};

// Of 3 to 7 stages, each of which reads any of those before it.
Dependencies random_dag(Drawing& drawing) {
  Dependencies before(static_cast<std::size_t>(3 + drawing.below(5)));
  for (std::size_t s = 1; s < before.size(); ++s) {
    for (std::size_t from = 0; from < s; ++from) {
      if (drawing.below(5) < 2) before[s].push_back(static_cast<int>(from));
    }
  }
  return before;
}

std::string dag_text(const Dependencies& before) {
  std::string text;
  for (const std::vector<int>& from : before) {
    text += fmt::format("{}[{}]", text.empty() ? "" : " ", fmt::join(from, " "));
  }
  return text;
}

// The best that descent finds from what is tried and from random counts.
Family random_family(const std::string& name, int dags, bool mixed_k) {
  Family family{name, {}};
  for (int i = 0; i < dags; ++i) {
    Drawing drawing(static_cast<std::uint64_t>(i));
    const Dependencies before = random_dag(drawing);
    std::vector<Turn> turns;
    for (std::size_t s = 0; s < before.size(); ++s) {
      turns.push_back({1 << drawing.below(3), mixed_k ? 1 << drawing.below(3) : 1});
    }
    Case one = judged_case(dag_text(before), before, turns, kRandomMiniBatch);
    EvenPipeline pipeline(before, turns, kRandomMiniBatch);
    one.best_s = one.tried_s;
    for (int start = 0; start <= kRestarts; ++start) {
      std::vector<std::int64_t> counts = one.rule;
      for (std::size_t s = 0; s < counts.size() && start > 0; ++s) {
        counts[s] = turns[s].size * (1 + drawing.below(kRandomMiniBatch / turns[s].size));
      }
      const int found_s = descend(pipeline, turns, kRandomMiniBatch, counts);
      if (found_s >= one.best_s) continue;
      one.best_s = found_s;
    }
    family.cases.push_back(std::move(one));
  }
  return family;
}

std::string summary_cells(const std::vector<Case>& cases, double (Case::*cost)() const) {
  int beyond = 0;
  double worst = 0;
  double sum = 0;
  for (const Case& one : cases) {
    const double here = (one.*cost)();
    if (here <= 0) continue;
    ++beyond;
    worst = std::max(worst, here);
    sum += here;
  }
  if (beyond == 0) return "0 | - | -";
  return fmt::format("{} | {:.1f} % | {:.1f} %", beyond, 100 * sum / beyond, 100 * worst);
}

void print_summary(const std::vector<Family>& families) {
  fmt::print(
      "| family | cases | the rule is not best | mean cost | worst | neither are 2, 3 hops, all | "
      "mean cost | worst |\n|---|---|---|---|---|---|---|---|\n");
  for (const Family& family : families) {
    fmt::print("| {} | {} | {} | {} |\n", family.name, family.cases.size(),
               summary_cells(family.cases, &Case::rule_cost),
               summary_cells(family.cases, &Case::tried_cost));
  }
}

void print_worst(const std::vector<Family>& families) {
  std::vector<Case> all;
  for (const Family& family : families) {
    for (const Case& one : family.cases) {
      if (one.rule_cost() > 0) all.push_back(one);
    }
  }
  std::ranges::stable_sort(all, {}, [](const Case& one) { return -one.rule_cost(); });
  if (all.size() > kWorstListed) all.resize(kWorstListed);
  fmt::print(
      "\n| stages and what each reads | b x k | rule's counts | s | best tried s | best s |\n"
      "|---|---|---|---|---|---|\n");
  for (const Case& one : all) {
    std::string turns;
    for (const Turn& turn : one.turns) turns += fmt::format(" {}x{}", turn.size, turn.in_a_row);
    fmt::print("| {} |{} | {} | {} | {} | {} |\n", one.graph, turns, fmt::join(one.rule, " "),
               one.rule_s, one.tried_s, one.best_s);
  }
}

void run(int dags) {
  const std::vector<Turn> k_only = {{1, 1}, {1, 2}, {1, 4}};
  std::vector<Turn> sizes_and_k;
  for (const int size : {1, 2, 4}) {
    for (const int k : {1, 2, 4}) sizes_and_k.push_back({size, k});
  }
  std::vector<Family> families;
  families.push_back(
      small_family("to 3 stages, b in {1, 2, 4}, k in {1, 2, 4}", 2, 3, sizes_and_k));
  families.push_back(small_family("4 stages, b = 1, k in {1, 2, 4}", 4, 4, k_only));
  families.push_back(random_family("random DAGs to 7 stages, b in {1, 2, 4}, k = 1", dags, false));
  families.push_back(
      random_family("random DAGs to 7 stages, b in {1, 2, 4}, k in {1, 2, 4}", dags, true));
  print_summary(families);
  print_worst(families);
}

}  // namespace
}  // namespace graphpipe

int main(int count, char** arguments) {
  const int dags = count > 1 ? std::atoi(arguments[1]) : 3000;
  if (dags < 1) {
    fmt::print(stderr, "in_flight_exceptions: RANDOM_DAGS is a number of at least 1\n");
    return 2;
  }
  graphpipe::run(dags);
  return 0;
}

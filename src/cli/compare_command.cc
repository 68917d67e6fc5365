// graphpipe compare MODEL: every planner on the same costs, judged by the same simulator.

#include <fmt/format.h>

#include <memory>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/cli_json.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/search_progress.h"
#include "cli/stream_flags.h"
#include "report/headline.h"
#include "report/text_report.h"
#include "search/search.h"

namespace graphpipe {
namespace {

struct CompareFlags {
  ProblemFlags problem;
  std::string planners;
  bool markdown = false;
  StreamFlags stream;
};

std::vector<const Planner*> chosen_planners(const std::string& names) {
  std::vector<const Planner*> chosen;
  if (names.empty()) {
    for (const Planner& planner : planners()) chosen.push_back(&planner);
  }
  for (const std::string& name : split_text(names, ',')) chosen.push_back(&planner_named(name));
  return chosen;
}

std::string_view status_name(PlanStatus status) {
  switch (status) {
    case PlanStatus::kOk:
      return "ok";
    case PlanStatus::kInfeasible:
      return "infeasible";
    case PlanStatus::kGaveUp:
      return "gave_up";
  }
  return "";
}

void run_compare(const CompareFlags& flags, CommandLine& line) {
  const WeightPolicy policy = flags.stream.parse();
  const auto chosen = chosen_planners(flags.planners);
  check_used(flags.problem, chosen);
  const LoadedProblem loaded(flags.problem);
  std::vector<ComparedPlan> rows;
  std::vector<double> search_s;
  bool any = false;
  for (const Planner* planner : chosen) {
    SearchProgress progress(planner->name, flags.problem.time_limit_s);
    SearchResult result = search_any_plan(*planner, loaded.problem, policy, progress.control());
    any = any || result.status == PlanStatus::kOk;
    search_s.push_back(result.search_s);
    rows.push_back({planner->name, std::string(status_name(result.status)), result.reason,
                    std::move(result.plan)});
  }
  print_out(line.json ? compare_json(rows, search_s, loaded.problem)
                      : compare_table(rows, flags.markdown));
  const std::string gain = headline(rows);
  if (!line.json && !gain.empty()) print_out("\n" + gain);
  if (!any) line.exit_code = kExitNo;
}

}  // namespace

void add_compare_command(CLI::App& app, CommandLine& line) {
  CLI::App* command =
      app.add_subcommand("compare", "every planner on the same costs, by the same judge");
  auto flags = std::make_shared<CompareFlags>();
  flags->problem.add_to(*command);
  flags->stream.add_to(*command);
  command->add_option("--planners", flags->planners, "a,b,c; default: all");
  command->add_flag("--markdown", flags->markdown, "the table as Markdown");
  command->callback([flags, &line] { run_compare(*flags, line); });
}

}  // namespace graphpipe

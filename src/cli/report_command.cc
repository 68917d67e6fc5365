// graphpipe report PLAN...: one HTML page.

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "report/page.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

struct ReportFlags {
  std::vector<std::string> plans;
  std::vector<std::string> measured;
  std::string profile;
  std::string output;
};

// Forwards and backwards of an iteration, on all devices.
std::int64_t task_count(const Schedule& programs, const Plan& plan) {
  std::int64_t tasks = 0;
  for (const Stage& stage : plan.stages) {
    const std::int64_t micro_batches =
        (programs.samples + stage.micro_batch - 1) / stage.micro_batch;
    const bool split = stage.replication == Replication::kSplit;
    tasks += 2 * micro_batches * (split ? static_cast<std::int64_t>(stage.devices.size()) : 1);
  }
  return tasks;
}

// Its estimate becomes what is simulated here, with these costs.
PagePlan page_plan(const std::string& file, const LoadedPlan& loaded) {
  PagePlan page;
  page.file = file;
  page.plan = loaded.plan;
  page.graph = &loaded.graph;
  page.cluster = &loaded.cluster;
  page.programs = lower(build_schedule(loaded.plan, loaded.graph, schedule_samples(loaded.plan)),
                        loaded.plan, loaded.graph);
  if (task_count(page.programs, page.plan) <= kMostPageTasks) {
    page.trace = simulate(page.programs, loaded.plan, loaded.graph, loaded.cluster, *loaded.costs,
                          {.events = true});
  } else {
    print_note(
        fmt::format("{}: more than {} tasks: no timeline", file, count_text(kMostPageTasks)));
    page.trace = simulate_plan(loaded.plan, loaded.graph, loaded.cluster, *loaded.costs, {},
                               /*extrapolate=*/true);
  }
  page.plan.estimate.iteration_s = page.trace.iteration_s;
  page.plan.estimate.throughput_samples_per_s = page.trace.throughput_samples_per_s();
  page.plan.estimate.bubble_fraction = page.trace.bubble_fraction();
  return page;
}

// Traces go with the plans in their order.
void add_measured(const ReportFlags& flags, std::vector<PagePlan>& pages) {
  for (std::size_t i = 0; i < flags.measured.size(); ++i) {
    PagePlan& page = pages[i];
    page.measured = parse_measured_trace(read_file(flags.measured[i]), flags.measured[i],
                                         static_cast<int>(page.programs.ranks.size()),
                                         static_cast<int>(page.plan.stages.size()));
  }
}

void run_report(const ReportFlags& flags, CommandLine& line) {
  if (const std::string missing = page_missing(); !missing.empty()) {
    throw InputError("report", missing);
  }
  if (flags.measured.size() > flags.plans.size()) {
    throw InputError("--measured", fmt::format("{} traces for {} plans; give one a plan, in the "
                                               "order of the plans",
                                               flags.measured.size(), flags.plans.size()));
  }
  std::vector<std::unique_ptr<LoadedPlan>> loaded;
  std::vector<PagePlan> pages;
  for (const std::string& file : flags.plans) {
    loaded.push_back(std::make_unique<LoadedPlan>(file, flags.profile));
    if (!can_run(*loaded.back(), /*in_any_memory=*/true)) {
      line.exit_code = kExitNo;
      return;
    }
    pages.push_back(page_plan(file, *loaded.back()));
  }
  add_measured(flags, pages);
  write_file(flags.output, report_page(pages));
  if (line.json) {
    print_out(page_data_json(pages));
    return;
  }
  print_out(fmt::format("written to {}: open it in a browser", flags.output));
}

}  // namespace

void add_report_command(CLI::App& app, CommandLine& line) {
  CLI::App* command = app.add_subcommand(
      "report", "one HTML page of plans: stages, timelines, memory, why it idles");
  auto flags = std::make_shared<ReportFlags>();
  command->add_option("PLAN", flags->plans, "plan files")->required();
  command->add_option("-o,--output", flags->output, "where to write the page")->required();
  command->add_option("--measured", flags->measured,
                      "traces that train --trace has written, in the order of the plans");
  command->add_option("--profile", flags->profile, "measured costs; default: those of the plan");
  command->callback([flags, &line] { run_report(*flags, line); });
}

}  // namespace graphpipe

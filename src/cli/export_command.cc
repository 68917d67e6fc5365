// graphpipe export PLAN: a plan for other tools.

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "report/plan_export.h"
#include "schedule/build.h"
#include "schedule/lower.h"

namespace graphpipe {
namespace {

std::string exported(const LoadedPlan& loaded, const std::string& format) {
  if (format == "dot") return plan_dot(loaded.plan, loaded.graph);
  if (format == "pipedream-conf") return pipedream_conf(loaded.plan, loaded.graph);
  if (format == "schedule-csv") {
    const Schedule schedule =
        build_schedule(loaded.plan, loaded.graph, schedule_samples(loaded.plan));
    return schedule_csv(loaded.plan, lower(schedule, loaded.plan, loaded.graph));
  }
  throw InputError("--format",
                   fmt::format("'{}' is none of: schedule-csv, pipedream-conf, dot", format));
}

}  // namespace

void add_export_command(CLI::App& app, CommandLine& line) {
  CLI::App* command = app.add_subcommand("export", "a plan for other tools");
  auto plan = std::make_shared<std::string>();
  auto format = std::make_shared<std::string>();
  auto output = std::make_shared<std::string>();
  command->add_option("PLAN", *plan, "a plan file")->required();
  command
      ->add_option("--format", *format,
                   "schedule-csv (PyTorch's, with destinations), pipedream-conf or dot (Graphviz)")
      ->required();
  command->add_option("-o,--output", *output, "where to write it; default: standard output");
  command->callback([plan, format, output, &line] {
    const std::string text = exported(LoadedPlan(*plan, ""), *format);
    if (output->empty()) return print_out(text);
    write_file(*output, text);
    if (!line.json) print_out(fmt::format("written to {}", *output));
  });
}

}  // namespace graphpipe

#include "cli/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "base/error.h"
#include "cli/command.h"

namespace graphpipe {
namespace {

// CLI11 answers --help and --version by throwing too; those are successes.
int parse_failure(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  fmt::print(stderr, "error: {}\n", error.what());
  const auto commands = app.get_subcommands();
  fmt::print(stderr, "  try: graphpipe {}{}--help\n",
             commands.empty() ? "" : commands.front()->get_name(), commands.empty() ? "" : " ");
  return kExitBadInput;
}

}  // namespace

int run_cli(int argc, const char* const* argv) {
  CLI::App app("Plans and runs pipeline-parallel training over a DAG of stages.", "graphpipe");
  app.set_version_flag("--version", std::string("graphpipe ") + GP_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(26);
  CommandLine line;
  add_models_command(app, line);
  add_show_command(app, line);
  add_profile_command(app, line);
  add_plan_command(app, line);
  add_compare_command(app, line);
  add_simulate_command(app, line);
  add_verify_command(app, line);
  add_train_command(app, line);
  add_data_command(app, line);
  for (CLI::App* command : app.get_subcommands(nullptr)) {
    command->add_flag("--json", line.json, "print one JSON document and nothing else");
  }

  try {
    app.parse(argc, argv);
    return line.exit_code;
  } catch (const CLI::ParseError& error) {
    return parse_failure(app, error);
  } catch (const InputError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kExitBadInput;
  } catch (const RunError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kExitRunFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "internal error, please report: {}\n", error.what());
    return kExitBug;
  }
}

}  // namespace graphpipe

// One file a command; each adds itself to the application.

#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace graphpipe {

// What all commands share.
struct CommandLine {
  bool json = false;  // one JSON document on standard output, and nothing else there
  int exit_code = 0;  // set by the command that ran
};

void add_models_command(CLI::App& app, CommandLine& line);
void add_show_command(CLI::App& app, CommandLine& line);
void add_profile_command(CLI::App& app, CommandLine& line);
void add_plan_command(CLI::App& app, CommandLine& line);
void add_compare_command(CLI::App& app, CommandLine& line);
void add_simulate_command(CLI::App& app, CommandLine& line);
void add_verify_command(CLI::App& app, CommandLine& line);
void add_report_command(CLI::App& app, CommandLine& line);
void add_train_command(CLI::App& app, CommandLine& line);
void add_export_command(CLI::App& app, CommandLine& line);
void add_import_command(CLI::App& app, CommandLine& line);
void add_data_command(CLI::App& app, CommandLine& line);
void add_doctor_command(CLI::App& app, CommandLine& line);

}  // namespace graphpipe

#include "cli/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/cli_json.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/shell_completion.h"
#include "cli/terminal.h"
#include "job/launcher.h"
#include "models/onnx/libraries.h"

namespace graphpipe {
namespace {

std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  const std::string near = nearest_word(word, names);
  return fmt::format("there is no command \"{}\"{}; there are {}", word,
                     near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                     fmt::join(names, ", "));
}

// CLI11's messages, but for those that leave out what was expected.
std::string parse_message(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  constexpr std::string_view kUnread = "Could not convert: ";
  constexpr std::string_view kRepeated = ": At Most 1 required but received ";
  const std::size_t equals = text.find(" = ");
  if (text.starts_with(kUnread) && equals != std::string::npos) {
    return fmt::format("{}: expected a number, found \"{}\"",
                       text.substr(kUnread.size(), equals - kUnread.size()),
                       text.substr(equals + 3));
  }
  if (const std::size_t at = text.find(kRepeated); at != std::string::npos) {
    return fmt::format("{}: given {} times; give it once", text.substr(0, at),
                       text.substr(at + kRepeated.size()));
  }
  if (!app.get_subcommands().empty()) return text;
  const std::vector<std::string> words = app.remaining();
  if (words.empty()) return "expected a command";
  if (words.front().starts_with('-')) {
    return fmt::format("expected a command, found \"{}\"", words.front());
  }
  return unknown_command(app, words.front());
}

// What the worker says of itself, in one line; it alone knows libtorch.
std::string worker_version() {
  const std::string worker = find_worker();
  if (worker.empty()) return "no graphpipe-worker beside this program or on PATH";
  std::string text;
  if (FILE* pipe = popen(("'" + worker + "' --version").c_str(), "r")) {
    std::array<char, 256> part{};
    while (std::fgets(part.data(), part.size(), pipe) != nullptr) text += part.data();
    pclose(pipe);
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string version_text() {
  return fmt::format("graphpipe {}\n{}, {}, fmt {}.{}.{}, CLI11 {}\n{}", GP_VERSION,
                     onnx_libraries(), json_library(), FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                     FMT_VERSION % 100, CLI11_VERSION, worker_version());
}

// Arguments stand in files of JSON.
void expect_utf8(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    if (!is_utf8(argv[i])) throw InputError(fmt::format("argument {}", i), "is not UTF-8");
  }
}

// CLI11 answers --help and --version by throwing too; those are successes.
int parse_failure(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  fmt::print(stderr, "error: {}\n", parse_message(app, error));
  const auto commands = app.get_subcommands();
  fmt::print(stderr, "  try: graphpipe {}{}--help\n",
             commands.empty() ? "" : commands.front()->get_name(), commands.empty() ? "" : " ");
  return kExitBadInput;
}

// graphpipe help: the whole reference, or a command's part of it.
void add_help_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "how to use all commands, or one");
  auto name = std::make_shared<std::string>();
  auto shell = std::make_shared<std::string>();
  auto manual = std::make_shared<bool>(false);
  command->add_option("COMMAND", *name, "default: all");
  command->add_option("--completion", *shell, "print a completion script: bash, zsh or fish");
  command->add_flag("--man", *manual, "print the manual page, for man");
  command->callback([&app, name, shell, manual] {
    if (!shell->empty()) return print_out(shell_completion(app, *shell));
    if (*manual) return print_out(manual_page(app));
    const auto help_of = [&app](const CLI::App* about, const std::string& title,
                                CLI::AppFormatMode mode) {
      print_out(app.get_formatter()->make_help(about, title, mode));
    };
    if (name->empty()) return help_of(&app, "graphpipe", CLI::AppFormatMode::All);
    for (const CLI::App* about : app.get_subcommands(nullptr)) {
      if (about->get_name() != *name) continue;
      return help_of(about, "graphpipe " + *name, CLI::AppFormatMode::Normal);
    }
    throw InputError("COMMAND", unknown_command(app, *name));
  });
}

}  // namespace

int run_cli(int argc, const char* const* argv) {
  CLI::App app("Plans and runs pipeline-parallel training over a DAG of stages.", "graphpipe");
  app.set_version_flag("--version", version_text, "the version, and those of the libraries");
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
  add_report_command(app, line);
  add_train_command(app, line);
  add_export_command(app, line);
  add_import_command(app, line);
  add_data_command(app, line);
  add_doctor_command(app, line);
  for (CLI::App* command : app.get_subcommands(nullptr)) {
    command->add_flag("--json", line.json, "print one JSON document and nothing else");
    auto* quiet = command->add_flag_callback(
        "--quiet", [] { set_verbosity(Verbosity::kQuiet); }, "no notes, no progress");
    command
        ->add_flag_callback(
            "--verbose", [] { set_verbosity(Verbosity::kVerbose); },
            "say what is done on the way, and how long it takes")
        ->excludes(quiet);
  }
  add_help_command(app);

  try {
    expect_utf8(argc, argv);
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw RunError("standard output: cannot be written");
    return line.exit_code;
  } catch (const CLI::ParseError& error) {
    return parse_failure(app, error);
  } catch (const InputError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kExitBadInput;
  } catch (const RunError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kExitRunFailed;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory\n");
    return kExitRunFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "internal error, please report: {}\n", error.what());
    return kExitBug;
  }
}

}  // namespace graphpipe

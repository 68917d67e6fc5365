#include "cli/shell_completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "planners/planner.h"

namespace graphpipe {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option*) { return true; });
}

// "--output", "-o".
std::vector<std::string> flags_of(const CLI::Option& option) {
  std::vector<std::string> flags;
  for (const std::string& name : option.get_lnames()) flags.push_back(fmt::format("--{}", name));
  for (const std::string& name : option.get_snames()) flags.push_back(fmt::format("-{}", name));
  return flags;
}

std::vector<std::string> all_flags(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : options_of(command)) {
    for (std::string& flag : flags_of(*option)) flags.push_back(std::move(flag));
  }
  return flags;
}

// What may stand behind a flag, where that is a word of ours; {}: a file, a number or the like.
std::vector<std::string> values_of(const std::string& flag) {
  if (flag == "--planner" || flag == "--planners") {
    std::vector<std::string> names;
    for (const Planner& planner : planners()) names.push_back(planner.name);
    return names;
  }
  if (flag == "--options") return {"none", "dp", "recompute", "dp,recompute"};
  if (flag == "--cluster") return {"summit:8", "summit:32", "a100:8", "h100:8", "local:4"};
  if (flag == "--format") return {"schedule-csv", "pipedream-conf", "dot"};
  if (flag == "--optimizer") return {"sgd", "sgd-momentum", "adam"};
  if (flag == "--policy") return {"stash", "vertical-sync", "2bw", "naive"};
  if (flag == "--data") return {"movielens", "digits", "synthetic"};
  return {};
}

// Of all commands' flags, those whose values are ours, each once.
std::vector<std::string> flags_with_values(const CLI::App& app) {
  std::vector<std::string> found;
  for (const CLI::App* command : commands_of(app)) {
    for (const std::string& flag : all_flags(*command)) {
      if (!values_of(flag).empty() && std::ranges::find(found, flag) == found.end()) {
        found.push_back(flag);
      }
    }
  }
  return found;
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  return names;
}

// For a shell: 'it'\''s'.
std::string shell_quoted(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'') {
      escaped += "'\\''";
    } else {
      escaped += c;
    }
  }
  return fmt::format("'{}'", escaped);
}

std::string bash_completion(const CLI::App& app) {
  std::string text = fmt::format(R"(# graphpipe's completion for bash: source it, or put it into
# /usr/share/bash-completion/completions/graphpipe
_graphpipe() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words=""
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "{} --help --version" -- "$word"))
    return
  fi
  # A colon divides words for bash.
  [ "$word" = : ] && return
  case "$before" in
)",
                                 fmt::join(names_of(app), " "));
  for (const std::string& flag : flags_with_values(app)) {
    text += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n", flag,
                        fmt::join(values_of(flag), " "));
  }
  text += "  esac\n  case \"${COMP_WORDS[1]}\" in\n";
  for (const CLI::App* command : commands_of(app)) {
    text += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(),
                        command->get_name() == "help"
                            ? fmt::format("{}", fmt::join(names_of(app), " "))
                            : fmt::format("{}", fmt::join(all_flags(*command), " ")));
  }
  return text + R"(  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word"))
       [ "${COMP_WORDS[1]}" = help ] && COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
  esac
}
complete -o filenames -F _graphpipe graphpipe
)";
}

// In zsh's specifications brackets and colons divide.
std::string zsh_description(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string zsh_option(const CLI::Option& option) {
  std::string lines;
  for (const std::string& flag : flags_of(option)) {
    std::string spec = fmt::format("{}[{}]", flag, zsh_description(option.get_description()));
    if (option.get_items_expected_max() > 0) {
      std::vector<std::string> values = values_of(flag);
      for (std::string& value : values) value = zsh_description(value);
      spec += values.empty() ? ":value:_files" : fmt::format(":value:({})", fmt::join(values, " "));
    }
    lines += fmt::format("        {} \\\n", shell_quoted(spec));
  }
  return lines;
}

std::string zsh_completion(const CLI::App& app) {
  std::string text = R"(#compdef graphpipe
# graphpipe's completion for zsh: put it into a folder of $fpath as _graphpipe
_graphpipe() {
  local -a commands
  commands=(
)";
  for (const CLI::App* command : commands_of(app)) {
    text += fmt::format("    {}\n",
                        shell_quoted(fmt::format("{}:{}", command->get_name(),
                                                 zsh_description(command->get_description()))));
  }
  text += R"(  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
)";
  for (const CLI::App* command : commands_of(app)) {
    text += fmt::format("    {})\n      _arguments \\\n", command->get_name());
    for (const CLI::Option* option : options_of(*command)) text += zsh_option(*option);
    text += command->get_name() == "help"
                ? fmt::format("        '*:command:({})' ;;\n", fmt::join(names_of(app), " "))
                : "        '*:file:_files' ;;\n";
  }
  return text + "  esac\n}\n_graphpipe \"$@\"\n";
}

std::string fish_completion(const CLI::App& app) {
  std::string text =
      "# graphpipe's completion for fish: put it into ~/.config/fish/completions/graphpipe.fish\n";
  for (const CLI::App* command : commands_of(app)) {
    text += fmt::format("complete -c graphpipe -f -n __fish_use_subcommand -a {} -d {}\n",
                        command->get_name(), shell_quoted(command->get_description()));
  }
  for (const CLI::App* command : commands_of(app)) {
    for (const CLI::Option* option : options_of(*command)) {
      if (flags_of(*option).empty()) continue;
      text += fmt::format("complete -c graphpipe -n '__fish_seen_subcommand_from {}'",
                          command->get_name());
      for (const std::string& name : option->get_lnames()) text += fmt::format(" -l {}", name);
      for (const std::string& name : option->get_snames()) text += fmt::format(" -s {}", name);
      if (option->get_items_expected_max() > 0) {
        const auto values = values_of(flags_of(*option).front());
        text +=
            values.empty()
                ? " -r"
                : fmt::format(" -x -a {}", shell_quoted(fmt::format("{}", fmt::join(values, " "))));
      }
      text += fmt::format(" -d {}\n", shell_quoted(option->get_description()));
    }
  }
  return text;
}

// A hyphen of a flag is a minus sign, and a dot at a line's start no request.
std::string roff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      if ((c == '.' || c == '\'') && escaped.empty()) escaped += "\\&";
      escaped += c;
    }
  }
  return escaped;
}

std::string manual_option(const CLI::Option& option) {
  const std::vector<std::string> flags = flags_of(option);
  std::string head =
      flags.empty() ? option.get_name(true) : fmt::format("{}", fmt::join(flags, ", "));
  if (!flags.empty() && option.get_items_expected_max() > 0) head += " VALUE";
  std::string text = fmt::format(".TP\n.B {}\n{}\n", roff(head), roff(option.get_description()));
  if (!option.get_default_str().empty()) {
    text += fmt::format("Default: {}.\n", roff(option.get_default_str()));
  }
  return text;
}

}  // namespace

std::string shell_completion(const CLI::App& app, const std::string& shell) {
  if (shell == "bash") return bash_completion(app);
  if (shell == "zsh") return zsh_completion(app);
  if (shell == "fish") return fish_completion(app);
  throw InputError("--completion", fmt::format("'{}' is none of: bash, zsh, fish", shell));
}

std::string manual_page(const CLI::App& app) {
  std::string text = fmt::format(R"(.TH GRAPHPIPE 1 "" "graphpipe {}"
.SH NAME
graphpipe \- plans and runs pipeline\-parallel training over a DAG of stages
.SH SYNOPSIS
.B graphpipe
.I COMMAND
[ARGUMENTS]
.SH DESCRIPTION
{}
.SH COMMANDS
)",
                                 GP_VERSION, roff(app.get_description()));
  for (const CLI::App* command : commands_of(app)) {
    text += fmt::format(".SS graphpipe {}\n{}\n", roff(command->get_name()),
                        roff(command->get_description()));
    for (const CLI::Option* option : options_of(*command)) text += manual_option(*option);
  }
  return text + R"(.SH EXIT STATUS
.TP
.B 0
done
.TP
.B 1
the answer is no (infeasible, a verification that fails), with the reason
.TP
.B 2
bad input: what, where, what was expected, what to do
.TP
.B 3
the run failed
.TP
.B 70
a bug of graphpipe's
.SH ENVIRONMENT
.TP
.B NO_COLOR
set and not empty: no colours
)";
}

}  // namespace graphpipe

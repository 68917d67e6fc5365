// graphpipe models: the zoo.

#include <fmt/format.h>

#include <algorithm>

#include "cli/cli_json.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "models/models.h"

namespace graphpipe {
namespace {

std::string models_text() {
  std::size_t width = 0;
  for (const ZooModel& model : zoo()) width = std::max(width, model.name.size());
  std::string text;
  for (const ZooModel& model : zoo()) {
    text += fmt::format("{:{}}  {}\n", model.name, width, model.summary);
    std::string parameters;
    for (const ZooParameter& p : model.parameters) {
      parameters +=
          fmt::format("{}{}={}", parameters.empty() ? "" : ",", p.name, value_text(p, p.value));
    }
    text += fmt::format("{:{}}  {}\n", "", width, parameters);
  }
  return text;
}

}  // namespace

void add_models_command(CLI::App& app, CommandLine& line) {
  CLI::App* command = app.add_subcommand("models", "the zoo, with parameters and defaults");
  command->callback([&line] { print_out(line.json ? models_json(zoo()) : models_text()); });
}

}  // namespace graphpipe

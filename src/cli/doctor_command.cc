// graphpipe doctor: what this machine offers, with advice.

#include <fmt/format.h>

#include <algorithm>

#include "cli/cli_json.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/machine.h"
#include "job/launcher.h"

namespace graphpipe {
namespace {

std::string findings_text(const std::vector<Finding>& findings) {
  std::string text;
  std::string topic;
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.name.size());
  int advised = 0;
  for (const Finding& finding : findings) {
    if (finding.topic != topic)
      text += fmt::format("{}{}\n", topic.empty() ? "" : "\n", finding.topic);
    topic = finding.topic;
    text += fmt::format("  {:<{}}  {}\n", finding.name, width, finding.value);
    if (finding.advice.empty()) continue;
    text += fmt::format("  {:<{}}  -> {}\n", "", width, finding.advice);
    ++advised;
  }
  return text + fmt::format("\n{} to look at\n", advised == 0 ? "nothing"
                                                 : advised == 1
                                                     ? "1 thing"
                                                     : fmt::format("{} things", advised));
}

}  // namespace

void add_doctor_command(CLI::App& app, CommandLine& line) {
  CLI::App* command = app.add_subcommand("doctor", "what this machine offers, with advice");
  command->callback([&line] {
    std::vector<Finding> findings = machine_findings();
    for (Finding& finding : worker_findings(find_worker())) findings.push_back(std::move(finding));
    print_out(line.json ? doctor_json(findings) : findings_text(findings));
  });
}

}  // namespace graphpipe

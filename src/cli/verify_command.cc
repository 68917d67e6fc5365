// graphpipe verify PLAN: the plan and its compiled programs, statically.

#include <fmt/format.h>

#include <memory>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/cli_json.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "report/text_table.h"
#include "schedule/verify.h"

namespace graphpipe {
namespace {

std::string verify_text(const Verification& verification) {
  std::string text;
  for (const Fault& fault : verification.faults) {
    text += fmt::format("{}: {}: {}\n", fault.where, fault.rule, fault.message);
  }
  if (!verification.ok()) return text;
  text = "ok: every message meets its receive, no cycle of waits, every value ends once\n";
  std::vector<std::string> ranks;
  for (const RankMemory& m : verification.memory) {
    ranks.push_back(fmt::format("peak {} (of it {} weights, gradients, optimiser) at {}",
                                bytes_text(static_cast<double>(m.peak_bytes)),
                                bytes_text(static_cast<double>(m.static_bytes)), m.peak_at));
  }
  return text + rank_lines(ranks);
}

// A plan with faults must still load, so that all of them can be told; but one that was made
// for another graph has no other that means anything.
Verification verification_of(const LoadedPlan& loaded) {
  if (!loaded.other_graph.empty()) {
    return {.faults = {{"P7", "plan: /graph_hash", loaded.other_graph}}};
  }
  return verify_plan(loaded.plan, loaded.graph, loaded.cluster, *loaded.costs);
}

void run_verify(const std::string& path, const std::string& profile, CommandLine& line) {
  const LoadedPlan loaded(path, profile, /*checked=*/false);
  const Verification verification = verification_of(loaded);
  print_out(line.json ? verify_json(verification) : verify_text(verification));
  if (!verification.ok()) line.exit_code = kExitNo;
}

}  // namespace

void add_verify_command(CLI::App& app, CommandLine& line) {
  CLI::App* command = app.add_subcommand("verify", "prove that a plan can run, without running it");
  auto plan = std::make_shared<std::string>();
  auto profile = std::make_shared<std::string>();
  command->add_option("PLAN", *plan, "a plan file")->required();
  command->add_option("--profile", *profile, "measured costs; default: those of the plan");
  command->callback([plan, profile, &line] { run_verify(*plan, *profile, line); });
}

}  // namespace graphpipe

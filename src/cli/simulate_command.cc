// graphpipe simulate PLAN: the timeline.

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/cli_json.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/terminal.h"
#include "cli/trace_file.h"
#include "report/text_report.h"
#include "report/text_table.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/trace_json.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

constexpr int kDefaultColumns = 100;

// Beyond so many tasks a timeline with every event neither fits in memory nor on a screen.
constexpr std::int64_t kMostTasks = 1'000'000;

int terminal_columns() {
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 40) {
    return size.ws_col;
  }
  return kDefaultColumns;
}

// Forwards and backwards of an iteration, on all devices; no more than kMostTasks + 1.
std::int64_t task_count(const Plan& plan) {
  std::int64_t tasks = 0;
  for (const Stage& stage : plan.stages) {
    const std::int64_t micro_batches =
        (schedule_samples(plan) + stage.micro_batch - 1) / stage.micro_batch;
    const auto replicas = static_cast<std::int64_t>(
        stage.replication == Replication::kSplit ? stage.devices.size() : 1);
    tasks += std::min(micro_batches, kMostTasks) * 2 * replicas;
    if (tasks > kMostTasks) return kMostTasks + 1;
  }
  return tasks;
}

std::string ranks_text(const Trace& trace) {
  std::vector<std::string> ranks;
  for (const RankUse& use : trace.ranks) {
    ranks.push_back(fmt::format("busy {}, peak {}", seconds_text(use.busy_s),
                                bytes_text(static_cast<double>(use.peak_memory_bytes))));
  }
  return rank_lines(ranks);
}

std::string rates_text(double samples_per_s, double bubble_fraction) {
  return fmt::format("{} samples/s, bubble {:.1f} %\n", rate_text(samples_per_s),
                     100 * bubble_fraction);
}

// `steady`: of an asynchronous plan.
std::string simulate_text(const Trace& trace, const std::optional<SteadyState>& steady,
                          const Schedule& schedule, const Plan& plan) {
  std::string text;
  if (!trace.events.empty()) {
    text = schedule_grid(trace, schedule, plan, terminal_columns(), colours_wanted()) + "\n";
  }
  if (steady) {
    text += fmt::format("steady: {} a mini-batch, ", seconds_text(steady->mini_batch_s)) +
            rates_text(static_cast<double>(plan.mini_batch) / steady->mini_batch_s,
                       steady->bubble_fraction) +
            fmt::format("stream of {} mini-batches ", trace.samples / plan.mini_batch);
  } else {
    text += "iteration ";
  }
  text += seconds_text(trace.iteration_s) + ", " +
          rates_text(trace.throughput_samples_per_s(), trace.bubble_fraction());
  return text + ranks_text(trace);
}

struct SimulateFlags {
  std::string plan;
  std::string profile;
  std::string trace;
  std::string measured;
};

void run_simulate(const SimulateFlags& flags, CommandLine& line) {
  const std::string& trace_path = flags.trace;
  if (!flags.measured.empty() && trace_path.empty()) {
    throw InputError("--measured", "goes with --trace, the file to write both to");
  }
  const LoadedPlan loaded(flags.plan, flags.profile);
  if (!can_run(loaded, /*in_any_memory=*/true)) {
    line.exit_code = kExitNo;
    return;
  }
  const Schedule schedule =
      build_schedule(loaded.plan, loaded.graph, schedule_samples(loaded.plan));
  const Schedule programs = lower(schedule, loaded.plan, loaded.graph);
  const bool drawn = task_count(loaded.plan) <= kMostTasks;
  if (!drawn && !trace_path.empty()) {
    throw InputError("--trace", fmt::format("the iteration has more than {} tasks, too many for a "
                                            "trace; plan with a smaller mini-batch",
                                            kMostTasks));
  }
  if (!drawn) print_note(fmt::format("more than {} tasks: not drawn", kMostTasks));
  const Trace trace = drawn ? simulate(programs, loaded.plan, loaded.graph, loaded.cluster,
                                       *loaded.costs, {.events = true})
                            : simulate_plan(loaded.plan, loaded.graph, loaded.cluster,
                                            *loaded.costs, {}, /*extrapolate=*/true);
  if (!flags.measured.empty()) {
    write_trace_with_prediction(trace_path, flags.measured, loaded);
  } else if (!trace_path.empty()) {
    write_file(trace_path, to_chrome_trace(trace, programs, loaded.plan));
  }
  std::optional<SteadyState> steady;
  if (is_asynchronous(loaded.plan.weights)) {
    steady = simulate_steady(loaded.plan, loaded.graph, loaded.cluster, *loaded.costs);
  }
  if (line.json) return print_out(simulate_json(trace, steady, programs, loaded.plan));
  print_out(simulate_text(trace, steady, programs, loaded.plan));
  if (!trace_path.empty()) {
    print_out(
        fmt::format("trace written to {}: open it in Perfetto or chrome://tracing", trace_path));
  }
}

}  // namespace

void add_simulate_command(CLI::App& app, CommandLine& line) {
  CLI::App* command = app.add_subcommand("simulate", "the timeline of a plan");
  auto flags = std::make_shared<SimulateFlags>();
  command->add_option("PLAN", flags->plan, "a plan file")->required();
  command->add_option("--profile", flags->profile, "measured costs; default: those of the plan");
  command->add_option("--trace", flags->trace, "write a Chrome trace there");
  command->add_option("--measured", flags->measured,
                      "a trace that train has written, to stand in the same file");
  command->callback([flags, &line] { run_simulate(*flags, line); });
}

}  // namespace graphpipe

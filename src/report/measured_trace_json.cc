#include <algorithm>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/json_reader.h"
#include "report/measured_trace.h"
#include "schedule/trace_json.h"

namespace graphpipe {
namespace {

constexpr double kMicroseconds = 1e-6;
// The processes of a file, without those of a prediction beside what was measured.
std::set<std::int64_t> measured_processes(const std::vector<JsonReader>& events) {
  std::set<std::int64_t> processes;
  std::set<std::int64_t> predicted;
  for (const JsonReader& event : events) {
    if (!event.has("pid")) continue;
    processes.insert(event["pid"].integer());
    if (event["ph"].string() != "M" || event["name"].string() != "process_name") continue;
    const std::string name = event["args"]["name"].string();
    if (name.ends_with(kPredicted)) predicted.insert(event["pid"].integer());
  }
  for (const std::int64_t process : predicted) processes.erase(process);
  return processes;
}

MeasuredTask task_of(const JsonReader& event, RankId rank, double start_s, double end_s,
                     int stages) {
  const JsonReader args = event["args"];
  const std::int64_t stage = args["stage"].integer();
  if (stage < 0 || stage >= stages) {
    args["stage"].fail(
        fmt::format("expected a stage of the plan, 0 to {}, found {}; is it "
                    "another plan's trace?",
                    stages - 1, stage));
  }
  const std::string name = event["name"].string();
  const std::size_t letter = name.find_first_of("FBIWR");
  if (letter == std::string::npos) event["name"].fail("expected a task, such as 0F1");
  return {rank,
          name[letter],
          StageId(static_cast<std::size_t>(stage)),
          args["micro_batch"].integer(),
          start_s,
          end_s};
}

}  // namespace

MeasuredTrace parse_measured_trace(const std::string& text, const std::string& where, int ranks,
                                   int stages) {
  const Json json = parse_json(text, where);
  const JsonReader root(json, where);
  if (!root.has("traceEvents")) root.fail("expected a Chrome trace, as train --trace writes it");
  const std::vector<JsonReader> events = root["traceEvents"].items();
  const auto processes = measured_processes(events);
  MeasuredTrace trace;
  trace.source = where;
  for (const JsonReader& event : events) {
    const std::string phase = event["ph"].string();
    if (phase != "X" && phase != "C") continue;
    const std::int64_t pid = event["pid"].integer();
    if (!processes.contains(pid)) continue;
    if (pid < 0 || pid >= ranks) {
      event["pid"].fail(
          fmt::format("expected a rank of the plan, 0 to {}, found {}; is it another "
                      "plan's trace?",
                      ranks - 1, pid));
    }
    const RankId rank(static_cast<std::size_t>(pid));
    const double start_s = event["ts"].number() * kMicroseconds;
    if (phase == "C") {
      if (event["name"].string() != "memory") continue;
      trace.memory.push_back({rank, start_s, event["args"]["bytes"].integer()});
      continue;
    }
    const double end_s = start_s + event["dur"].number_at_least(0) * kMicroseconds;
    trace.iteration_s = std::max(trace.iteration_s, end_s);
    const std::string category = event["cat"].string();
    if (category == "wait") {
      trace.waits.push_back({rank, event["name"].string(), start_s, end_s});
    } else if (category == "forward" || category == "backward" || category == "recompute") {
      trace.tasks.push_back(task_of(event, rank, start_s, end_s, stages));
    }
  }
  if (trace.tasks.empty()) root.fail("the trace has no task; expected what train --trace writes");
  const auto by_start = [](const auto& a, const auto& b) {
    return std::tie(a.rank, a.start_s) < std::tie(b.rank, b.start_s);
  };
  std::ranges::stable_sort(trace.tasks, by_start);
  std::ranges::stable_sort(trace.waits, by_start);
  std::ranges::stable_sort(trace.memory, [](const MemorySample& a, const MemorySample& b) {
    return std::tie(a.rank, a.time_s) < std::tie(b.rank, b.time_s);
  });
  return trace;
}

}  // namespace graphpipe

#include <algorithm>
#include <cstring>
#include <string>
#include <variant>

#include "base/error.h"
#include "base/text.h"
#include "fuzz/targets.h"
#include "job/checkpoint/checkpoint.h"
#include "job/hosts/host_list.h"
#include "job/hosts/launch_plan.h"
#include "job/hosts/remote_ranks.h"
#include "job/job_json.h"
#include "job/learning_rate.h"
#include "job/profile_lines.h"
#include "job/status.h"
#include "job/train_lines.h"

namespace graphpipe::fuzz {
namespace {

// "the first line" -> the line, and what is behind it.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

struct WrittenLine {
  std::string operator()(std::monostate) const { return ""; }
  template <typename Line>
  std::string operator()(const Line& line) const {
    return to_json_line(line);
  }
};

}  // namespace

void job(std::string_view input) {
  const Job job = parse_job(input, "file");
  GP_CHECK(parse_job(to_json(job), "again") == job, "another job");
  for (const std::int64_t step : {0, 1, 1000}) learning_rate_at(job.train, step);
}

void fault(std::string_view input) {
  const WorkerFault fault = parse_fault(input, "file");
  GP_CHECK(parse_fault(to_json(fault), "again") == fault, "another fault");
  to_text(fault);
}

// Whole manifests and ranks' parts.
void checkpoint(std::string_view input) {
  const bool whole = input.find("-part\"") == std::string_view::npos;
  const CheckpointManifest manifest = parse_checkpoint(input, "file", whole);
  const std::string text = to_json(manifest, whole);
  GP_CHECK(to_json(parse_checkpoint(text, "again", whole), whole) == text, "another manifest");
  weight_index_json(manifest);
  check_resumable(manifest, manifest, "file");
}

// The memory that a rank shares with its launcher.
void status(std::string_view input) {
  Plan plan;
  plan.stages.resize(2);
  plan.edges.resize(1);
  plan.edges[0].from = StageId(0);
  plan.edges[0].to = StageId(1);
  RankStatus status;
  std::memcpy(static_cast<void*>(&status), input.data(), std::min(input.size(), sizeof status));
  is_done(status);
  GP_CHECK(to_text(status, plan).size() < 4096, "a long text");
}

// What workers and remote ranks write to standard output, which the launcher follows.
void worker_line(std::string_view input) {
  const std::string line(take_line(input));
  const std::string written = std::visit(WrittenLine(), parse_train_line(line));
  const std::string again = std::visit(WrittenLine(), parse_train_line(written));
  GP_CHECK(again == written, "another line: {}", again);
  if (const auto failure = parse_failure_line(line)) {
    const std::string text = failure_line(*failure);
    GP_CHECK(failure_line(parse_failure_line(text).value()) == text, "another failure");
  }
  if (const auto measuring = parse_measuring_line(line)) {
    GP_CHECK(parse_measuring_line(to_json_line(*measuring)) == measuring, "another measurement");
  }
  parse_rendezvous_line(line);
}

void hostfile(std::string_view input) {
  const std::vector<HostSlots> hosts = parse_hostfile(input, "file");
  std::int64_t slots = 0;
  for (const HostSlots& host : hosts) {
    GP_CHECK(host.slots >= 1 && !host.host.empty() && host.host[0] != '-', "{} slots of {}",
             host.slots, host.host);
    slots += host.slots;
  }
  const int ranks = static_cast<int>(std::min<std::int64_t>(slots, 100));
  GP_CHECK(place_ranks(hosts, ranks, "file").size() == static_cast<std::size_t>(ranks), "ranks");
  for (const HostSlots& host : hosts) shell_word(host.host);
}

void node_list(std::string_view input) {
  GP_CHECK(!expand_node_list(input, "variable").empty(), "no host");
}

// A line a variable, NAME=VALUE; those that begin with "--" are flags.
void launch(std::string_view input) {
  Environment environment;
  LaunchFlags flags;
  while (!input.empty()) {
    const std::string line(take_line(input));
    const std::size_t equals = std::min(line.find('='), line.size());
    const std::string name = line.substr(0, equals);
    const std::string value = line.substr(std::min(equals + 1, line.size()));
    if (name == "--launcher") {
      flags.launcher = value;
    } else if (name == "--rendezvous") {
      flags.rendezvous = value;
    } else if (name == "--interface") {
      flags.interface = value;
    } else {
      environment[name] = value;
    }
  }
  const LaunchPlan plan = plan_launch(environment, flags);
  GP_CHECK(plan.rank >= 0 && plan.rank < plan.size, "rank {} of {}", plan.rank, plan.size);
  GP_CHECK(plan.rendezvous.port >= 0 && plan.rendezvous.port < 65536, "port {}",
           plan.rendezvous.port);
}

// Values of the command line: the first letter says of which kind.
void flags(std::string_view input) {
  if (input.empty()) return;
  const std::string text(input.substr(1));
  switch (input.front()) {
    case 'b':
      GP_CHECK(parse_bytes(text, "flag") >= 0, "{}", text);
      break;
    case 'w':
      GP_CHECK(parse_bandwidth(text, "flag") >= 0, "{}", text);
      break;
    case 's':
      GP_CHECK(parse_seconds(text, "flag") >= 0, "{}", text);
      break;
    case 'i':
      parse_integer(text, "flag");
      break;
    case 'n':
      parse_number(text, "flag");
      break;
    case 'l': {
      const RateSchedule schedule = parse_rate_schedule(text, "flag");
      GP_CHECK(parse_rate_schedule(to_text(schedule), "again") == schedule, "{}", text);
      for (const std::int64_t step : {0, 1, 1 << 30}) scheduled_rate(0.1, schedule, step);
      break;
    }
    default:
      nearest_word(text, {"graphpipe", "pipedream", "piper"});
  }
}

}  // namespace graphpipe::fuzz

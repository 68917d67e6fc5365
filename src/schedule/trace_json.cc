// Written by hand, event by event: a trace of many micro-batches is large, and all that
// stands in it are numbers and our own words.
//
// Tracks: one process a rank; its thread 0 computes, threads 1 and on carry messages and
// reductions, as many as are on the way at once. A flow leads from a message to the
// compute that reads it.

#include "schedule/trace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "schedule/drawing.h"
#include "schedule/in_flight.h"

namespace graphpipe {
namespace {

constexpr double kMicroseconds = 1e6;

// Threads of a rank on which events that overlap stand side by side.
class Lanes {
 public:
  int place(double start_s, double end_s) {
    auto free = std::ranges::find_if(ends_s_, [&](double end) { return end <= start_s; });
    if (free == ends_s_.end()) free = ends_s_.insert(free, 0);
    *free = end_s;
    return static_cast<int>(free - ends_s_.begin());
  }
  int count() const { return static_cast<int>(ends_s_.size()); }

 private:
  std::vector<double> ends_s_;
};

// Which compute reads a message: by rank, stage and direction, then by its first sample.
using Reader = std::tuple<RankId, StageId, Direction, std::int64_t>;

class Writer {
 public:
  Writer(const Trace& trace, const Schedule& schedule, const Plan& plan,
         const ChromeTraceOptions& options)
      : trace_(trace),
        schedule_(schedule),
        plan_(plan),
        options_(options),
        unit_(kMicroseconds * options.stretch),
        flows_(static_cast<std::int64_t>(options.first_process) << 32),
        lanes_(schedule.ranks.size()) {
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
      const TraceEvent& event = trace.events[i];
      if (reads_messages(event.action.kind)) readers_.emplace(reader_key(event), i);
    }
  }

  std::string write() {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    for (const TraceEvent& event : trace_.events) {
      is_compute(event.action.kind) ? write_compute(event) : write_transfer(event);
    }
    for (const MemorySample& sample : trace_.memory) {
      record(R"("name":"memory","ph":"C","pid":{},"ts":{:.3f},"args":{{"bytes":{}}})",
             process(sample.rank), sample.time_s * unit_, sample.bytes);
    }
    for (const InFlightSample& sample : in_flight_over_time(trace_)) {
      record(R"("name":"in flight","ph":"C","pid":{},"ts":{:.3f},"args":{{"samples":{}}})",
             process(sample.rank), sample.time_s * unit_, sample.samples);
    }
    for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) write_names(r);
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  int process(RankId rank) const { return options_.first_process + rank.value; }
  static bool reads_messages(ActionKind kind) {
    return kind == ActionKind::kForward || kind == ActionKind::kBackward ||
           kind == ActionKind::kBackwardInput;
  }
  static std::string_view category(ActionKind kind) {
    if (kind == ActionKind::kForward) return "forward";
    return kind == ActionKind::kRecompute ? "recompute" : "backward";
  }
  static std::string_view transfer_category(ActionKind kind) {
    if (kind == ActionKind::kStartSend) return "message";
    const bool waits = kind == ActionKind::kWaitReceive || kind == ActionKind::kWaitSend;
    return waits ? "wait" : "update";
  }
  static Reader reader_key(const TraceEvent& event) {
    const Direction direction =
        event.action.kind == ActionKind::kForward ? Direction::kForward : Direction::kBackward;
    return {event.rank, event.action.stage, direction, event.action.samples.lo};
  }

  template <typename... Values>
  void record(fmt::format_string<Values...> format, Values&&... values) {
    text_ += text_.ends_with('[') ? "\n{" : ",\n{";
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
    text_ += '}';
  }

  void write_compute(const TraceEvent& event) {
    const Action& a = event.action;
    record(R"("name":"{}","cat":"{}","ph":"X","pid":{},"tid":0,"ts":{:.3f},"dur":{:.3f},)"
           R"("args":{{"stage":{},"micro_batch":{},"first_sample":{},"samples":{}}})",
           to_text(a, plan_), category(a.kind), process(event.rank), event.start_s * unit_,
           (event.end_s - event.start_s) * unit_, a.stage.value, a.micro_batch, a.samples.lo,
           a.samples.size());
  }

  void write_transfer(const TraceEvent& event) {
    const Action& a = event.action;
    const int lane = 1 + lanes_[event.rank.index()].place(event.start_s, event.end_s);
    const bool message = a.kind == ActionKind::kStartSend;
    record(R"("name":"{}","cat":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},)"
           R"("args":{{"bytes":{}}})",
           to_text(a, plan_), transfer_category(a.kind), process(event.rank), lane,
           event.start_s * unit_, (event.end_s - event.start_s) * unit_, a.bytes);
    const std::optional<std::size_t> reader = message ? reader_of(event) : std::nullopt;
    if (!reader) return;
    const TraceEvent& reads = trace_.events[*reader];
    ++flows_;
    record(R"("name":"message","cat":"flow","ph":"s","id":{},"pid":{},"tid":{},"ts":{:.3f})",
           flows_, process(event.rank), lane, event.start_s * unit_);
    record(
        R"("name":"message","cat":"flow","ph":"f","bp":"e","id":{},"pid":{},"tid":0,"ts":{:.3f})",
        flows_, process(reads.rank), reads.start_s * unit_);
  }

  // The compute at the other end whose samples hold the message's.
  std::optional<std::size_t> reader_of(const TraceEvent& message) const {
    const Action& a = message.action;
    const StageEdge& edge = plan_.edge(a.edge);
    const StageId stage = a.direction == Direction::kForward ? edge.to : edge.from;
    auto at = readers_.upper_bound({a.peer, stage, a.direction, a.samples.lo});
    if (at == readers_.begin()) return std::nullopt;
    --at;
    const TraceEvent& event = trace_.events[at->second];
    const bool reads = event.rank == a.peer && event.action.stage == stage &&
                       std::get<Direction>(at->first) == a.direction &&
                       a.samples.hi <= event.action.samples.hi;
    return reads ? std::optional(at->second) : std::nullopt;
  }

  void write_names(std::size_t rank) {
    const int pid = process(RankId(rank));
    record(R"("name":"process_name","ph":"M","pid":{},"args":{{"name":"rank {}, device {}{}"}})",
           pid, rank, schedule_.ranks[rank].device.value, options_.suffix);
    record(R"("name":"process_sort_index","ph":"M","pid":{},"args":{{"sort_index":{}}})", pid,
           rank);
    record(R"("name":"thread_name","ph":"M","pid":{},"tid":0,"args":{{"name":"compute"}})", pid);
    for (int lane = 1; lane <= lanes_[rank].count(); ++lane) {
      record(R"("name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"messages {}"}})",
             pid, lane, lane);
    }
  }

  const Trace& trace_;
  const Schedule& schedule_;
  const Plan& plan_;
  const ChromeTraceOptions& options_;
  double unit_;                            // microseconds of the file in a second of the trace
  std::int64_t flows_;                     // the last flow's number, of its own for each process
  std::vector<Lanes> lanes_;               // [rank]
  std::map<Reader, std::size_t> readers_;  // event
  std::string text_;
};

}  // namespace

std::string to_chrome_trace(const Trace& trace, const Schedule& schedule, const Plan& plan,
                            const ChromeTraceOptions& options) {
  return Writer(trace, schedule, plan, options).write();
}

std::string join_chrome_traces(const std::string& first, const std::string& second) {
  const std::size_t end = first.rfind("\n]}");
  const std::size_t begin = second.find("[\n");
  GP_CHECK(end != std::string::npos && begin != std::string::npos, "not traces of ours");
  return first.substr(0, end) + "," + second.substr(begin + 1);
}

ChromeTraceOptions predicted_processes(double stretch) {
  constexpr int kBeyondRanks = 1'000'000;
  return {kBeyondRanks, kPredicted, stretch};
}

}  // namespace graphpipe

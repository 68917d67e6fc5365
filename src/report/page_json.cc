// Columns rather than records: a timeline of 64 ranks and 256 micro-batches has 33,000 tasks and
// as many messages. Times are whole ticks; columns that climb hold the steps between neighbours.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/json_reader.h"
#include "base/text.h"
#include "cost/cost_model.h"
#include "report/headline.h"
#include "report/idle.h"
#include "report/model_pieces.h"
#include "report/page.h"
#include "schedule/drawing.h"
#include "schedule/in_flight.h"

namespace graphpipe {
namespace {

// A drawing of so many points shows what one of more does.
constexpr std::size_t kMostPoints = 2048;   // of a rank's line
constexpr std::int64_t kMemoryUnit = 1024;  // bytes
constexpr double kTicksOfIteration = 1e8;

// A power of ten of a second.
double tick_of(double iteration_s) {
  if (iteration_s <= 0) return 1;
  return std::pow(10, std::floor(std::log10(iteration_s / kTicksOfIteration)));
}

class Ticks {
 public:
  explicit Ticks(double tick_s) : tick_s_(tick_s) {}
  std::int64_t of(double seconds) const { return std::llround(seconds / tick_s_); }

 private:
  double tick_s_;
};

// Tasks of a rank, one behind the other.
class TaskColumns {
 public:
  explicit TaskColumns(const Ticks& ticks) : ticks_(ticks) {}
  void add(double start_s, double end_s, char kind, StageId stage, std::int64_t micro_batch) {
    const std::int64_t start = ticks_.of(start_s);
    const std::int64_t end = ticks_.of(end_s);
    gaps_.push_back(start - last_);
    lengths_.push_back(end - start);
    kinds_ += kind;
    stages_.push_back(stage.value);
    micro_batches_.push_back(micro_batch);
    last_ = end;
  }
  Json json() const {
    return {{"gap", gaps_},
            {"length", lengths_},
            {"kind", kinds_},
            {"stage", stages_},
            {"micro_batch", micro_batches_}};
  }

 private:
  const Ticks& ticks_;
  std::int64_t last_ = 0;
  std::vector<std::int64_t> gaps_;
  std::vector<std::int64_t> lengths_;
  std::string kinds_;
  std::vector<std::int64_t> stages_;
  std::vector<std::int64_t> micro_batches_;
};

// The differences of neighbours, the first from 0.
std::vector<std::int64_t> steps_of(std::vector<std::int64_t> values) {
  for (std::size_t i = values.size(); i-- > 1;) values[i] -= values[i - 1];
  return values;
}

// A step line, values in `unit`s. Where there are too many points, of neighbours the largest.
Json step_line(const std::vector<std::pair<std::int64_t, std::int64_t>>& points,
               std::int64_t unit = 1) {
  std::vector<std::int64_t> times;
  std::vector<std::int64_t> values;
  const std::size_t together = points.size() / kMostPoints + 1;
  for (std::size_t i = 0; i < points.size(); i += together) {
    std::int64_t most = points[i].second;
    for (std::size_t j = i; j < std::min(points.size(), i + together); ++j) {
      most = std::max(most, points[j].second);
    }
    times.push_back(points[i].first);
    values.push_back((most + unit / 2) / unit);
  }
  return {{"time", steps_of(times)}, {"value", steps_of(values)}, {"unit", unit}};
}

// What changes at one time is one point: the most that was there, then what stays.
std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> memory_points(
    const std::vector<MemorySample>& memory, std::size_t ranks, const Ticks& ticks) {
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> points(ranks);
  for (const MemorySample& sample : memory) {
    auto& line = points[sample.rank.index()];
    const std::int64_t now = ticks.of(sample.time_s);
    const std::size_t n = line.size();
    if (n >= 2 && line[n - 1].first == now && line[n - 2].first == now) {
      line[n - 2].second = std::max(line[n - 2].second, line[n - 1].second);
      line[n - 1].second = sample.bytes;
    } else {
      line.emplace_back(now, sample.bytes);
    }
  }
  return points;
}

Json stages_json(const PagePlan& page) {
  const Plan& plan = page.plan;
  Json stages = Json::array();
  const auto& memory = plan.estimate.stage_memory_bytes;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    std::vector<int> devices;
    std::vector<int> ranks;
    for (const DeviceId device : stage.devices) {
      devices.push_back(device.value);
      ranks.push_back(page.programs.rank_of(device).value);
    }
    stages.push_back(
        {{"operators", stage.ops.size()},
         {"first", page.graph->op(stage.ops.front()).name},
         {"last", page.graph->op(stage.ops.back()).name},
         {"devices", devices},
         {"ranks", ranks},
         {"replication", stage.replication == Replication::kSplit ? "split" : "in turn"},
         {"micro_batch", stage.micro_batch},
         {"in_flight", stage.in_flight_samples},
         {"recompute", stage.recompute},
         {"memory_bytes", s < memory.size() ? Json(memory[s]) : Json()}});
  }
  return stages;
}

Json edges_json(const Plan& plan, const Graph& graph) {
  Json edges = Json::array();
  for (const StageEdge& edge : plan.edges) {
    std::int64_t bytes = 0;
    for (const TensorId tensor : edge.tensors) bytes += tensor_bytes(graph.tensor(tensor), 1);
    edges.push_back({{"from", edge.from.value},
                     {"to", edge.to.value},
                     {"kind", edge.kind == EdgeKind::kData ? "data" : "order"},
                     {"bytes_per_sample", bytes}});
  }
  return edges;
}

Json model_json(const Plan& plan, const Graph& graph) {
  const ModelPieces model = model_pieces(plan, graph);
  Json pieces = Json::array();
  for (const ModelPiece& piece : model.pieces) {
    pieces.push_back({{"stage", piece.stage.value},
                      {"branch", piece.branch},
                      {"operators", piece.ops.size()},
                      {"first", graph.op(piece.ops.front()).name},
                      {"last", graph.op(piece.ops.back()).name}});
  }
  Json edges = Json::array();
  for (const PieceEdge& edge : model.edges) {
    edges.push_back({{"from", edge.from}, {"to", edge.to}, {"bytes_per_sample", edge.bytes}});
  }
  return {{"pieces", pieces}, {"edges", edges}};
}

class TimelineWriter {
 public:
  TimelineWriter(const PagePlan& page, double tick_s)
      : page_(page),
        ticks_(tick_s),
        links_(link_trace(page.trace, page.programs, page.plan, *page.cluster)) {}

  Json json() {
    Json ranks = Json::array();
    std::vector<TaskColumns> tasks(page_.programs.ranks.size(), TaskColumns(ticks_));
    for (const TraceEvent& event : page_.trace.events) {
      if (!is_compute(event.action.kind)) continue;
      tasks[event.rank.index()].add(event.start_s, event.end_s, compute_letter(event.action.kind),
                                    event.action.stage, event.action.micro_batch);
    }
    const auto memory = memory_points(page_.trace.memory, tasks.size(), ticks_);
    const auto in_flight = in_flight_lines();
    const auto limits = in_flight_limits(page_.programs, page_.plan);
    const auto [idle, waits] = idle_json();
    for (std::size_t r = 0; r < tasks.size(); ++r) {
      ranks.push_back(
          {{"device", page_.programs.ranks[r].device.value},
           {"busy_s", page_.trace.ranks[r].busy_s},
           {"peak_bytes", page_.trace.ranks[r].peak_memory_bytes},
           {"memory_bytes", page_.cluster->type_of(page_.programs.ranks[r].device).memory_bytes},
           {"in_flight_limit", limits[r]},
           {"tasks", tasks[r].json()},
           {"idle", idle[r]},
           {"waits", waits[r]},
           {"memory", step_line(memory[r], kMemoryUnit)},
           {"in_flight", step_line(in_flight[r])}});
    }
    return {{"ranks", ranks}, {"messages", messages_json()}, {"path", path_json()}};
  }

 private:
  const TraceEvent& event(int i) const { return page_.trace.events[static_cast<std::size_t>(i)]; }

  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> in_flight_lines() const {
    std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> lines(
        page_.programs.ranks.size());
    for (const InFlightSample& sample : in_flight_over_time(page_.trace)) {
      lines[sample.rank.index()].emplace_back(ticks_.of(sample.time_s), sample.samples);
    }
    return lines;
  }

  // The stage whose work is waited for; -1: none.
  int stage_waited_for(const IdleSpan& span) const {
    if (span.task >= 0) return event(span.task).action.stage.value;
    if (span.event < 0 || event(span.event).action.kind != ActionKind::kStartSend) return -1;
    return event(span.event).action.stage.value;
  }

  // By rank: each span with its reason, and how long each reason took in all.
  std::pair<std::vector<Json>, std::vector<Json>> idle_json() const {
    struct Columns {
      std::vector<std::int64_t> start, length;
      std::vector<int> reason, rank;
      std::vector<std::string> what;
      std::map<std::pair<int, int>, double> total_s;  // by reason and stage
    };
    std::vector<Columns> columns(page_.programs.ranks.size());
    for (const IdleSpan& span : idle_spans(page_.trace, links_)) {
      Columns& c = columns[span.rank.index()];
      const int named = span.task >= 0 ? span.task : span.event;
      const std::int64_t start = ticks_.of(span.start_s);
      c.start.push_back(start);
      c.length.push_back(ticks_.of(span.end_s) - start);
      c.reason.push_back(static_cast<int>(span.reason));
      c.rank.push_back(named >= 0 ? event(named).rank.value : -1);
      c.what.push_back(named >= 0 ? to_text(event(named).action, page_.plan) : "");
      c.total_s[{static_cast<int>(span.reason), stage_waited_for(span)}] +=
          span.end_s - span.start_s;
    }
    std::vector<Json> spans;
    std::vector<Json> waits;
    for (const Columns& c : columns) {
      spans.push_back({{"start", steps_of(c.start)},
                       {"length", c.length},
                       {"reason", c.reason},
                       {"rank", c.rank},
                       {"what", c.what}});
      Json totals = Json::array();
      for (const auto& [key, seconds] : c.total_s) {
        totals.push_back({{"reason", key.first}, {"stage", key.second}, {"s", seconds}});
      }
      waits.push_back(totals);
    }
    return {spans, waits};
  }

  Json messages_json() const {
    std::vector<std::int64_t> start, length, bytes, micro_batch;
    std::vector<int> from, to, edge;
    std::string direction;
    for (const TraceEvent& e : page_.trace.events) {
      if (e.action.kind != ActionKind::kStartSend) continue;
      const std::int64_t at = ticks_.of(e.start_s);
      start.push_back(at);
      length.push_back(ticks_.of(e.end_s) - at);
      bytes.push_back(e.action.bytes);
      micro_batch.push_back(e.action.micro_batch);
      from.push_back(e.rank.value);
      to.push_back(e.action.peer.value);
      edge.push_back(e.action.edge.value);
      direction += e.action.direction == Direction::kForward ? 'F' : 'B';
    }
    return {{"start", steps_of(start)},
            {"length", length},
            {"bytes", bytes},
            {"micro_batch", micro_batch},
            {"from", from},
            {"to", to},
            {"edge", edge},
            {"direction", direction}};
  }

  Json path_json() const {
    std::vector<std::int64_t> start, length;
    std::vector<int> kind, rank, to;
    std::vector<std::string> what;
    std::map<std::string, double> total_s;
    static constexpr const char* kKinds[] = {"tasks", "messages", "reductions", "waits"};
    for (const PathStep& step : critical_path(page_.trace, links_)) {
      const TraceEvent& e = event(step.event);
      const std::int64_t at = ticks_.of(step.start_s);
      start.push_back(at);
      length.push_back(ticks_.of(step.end_s) - at);
      kind.push_back(static_cast<int>(step.kind));
      rank.push_back(e.rank.value);
      to.push_back(e.action.kind == ActionKind::kStartSend ? e.action.peer.value : -1);
      what.push_back(to_text(e.action, page_.plan));
      total_s[kKinds[static_cast<int>(step.kind)]] += step.end_s - step.start_s;
    }
    return {{"start", steps_of(start)},
            {"length", length},
            {"kind", kind},
            {"rank", rank},
            {"to", to},
            {"what", what},
            {"total_s", total_s}};
  }

  const PagePlan& page_;
  Ticks ticks_;
  TraceLinks links_;
};

Json measured_json(const MeasuredTrace& measured, const PagePlan& page, double tick_s) {
  const Ticks ticks(tick_s);
  const std::size_t ranks = page.programs.ranks.size();
  std::vector<TaskColumns> tasks(ranks, TaskColumns(ticks));
  std::vector<double> stage_s(page.plan.stages.size(), 0);
  std::vector<double> busy_s(ranks, 0);
  for (const MeasuredTask& task : measured.tasks) {
    tasks[task.rank.index()].add(task.start_s, task.end_s, task.kind, task.stage, task.micro_batch);
    stage_s[task.stage.index()] += task.end_s - task.start_s;
    busy_s[task.rank.index()] += task.end_s - task.start_s;
  }
  const auto memory = memory_points(measured.memory, ranks, ticks);
  struct Waits {
    std::vector<std::int64_t> start, length;
    std::vector<std::string> what;
  };
  std::vector<Waits> waits(ranks);
  for (const MeasuredWait& wait : measured.waits) {
    Waits& of_rank = waits[wait.rank.index()];
    const std::int64_t start = ticks.of(wait.start_s);
    of_rank.start.push_back(start);
    of_rank.length.push_back(ticks.of(wait.end_s) - start);
    of_rank.what.push_back(wait.action);
  }
  Json json = {{"source", measured.source},
               {"iteration_s", measured.iteration_s},
               {"stage_s", stage_s},
               {"ranks", Json::array()}};
  for (std::size_t r = 0; r < ranks; ++r) {
    json["ranks"].push_back({{"busy_s", busy_s[r]},
                             {"tasks", tasks[r].json()},
                             {"waits",
                              {{"start", steps_of(waits[r].start)},
                               {"length", waits[r].length},
                               {"what", waits[r].what}}},
                             {"memory", step_line(memory[r], kMemoryUnit)}});
  }
  return json;
}

// [stage]: computing, on all its devices together.
std::vector<double> predicted_stage_s(const PagePlan& page) {
  std::vector<double> stage_s(page.plan.stages.size(), 0);
  for (const TraceEvent& event : page.trace.events) {
    if (!is_compute(event.action.kind)) continue;
    stage_s[event.action.stage.index()] += event.end_s - event.start_s;
  }
  return stage_s;
}

Json plan_json(const PagePlan& page) {
  const Plan& plan = page.plan;
  const PlanEstimate& estimate = plan.estimate;
  std::int64_t peak_bytes = 0;
  for (const RankUse& rank : page.trace.ranks) {
    peak_bytes = std::max(peak_bytes, rank.peak_memory_bytes);
  }
  const double longest_s =
      std::max(page.trace.iteration_s, page.measured ? page.measured->iteration_s : 0);
  const double tick_s = tick_of(longest_s);
  Json json = {
      {"file", page.file},
      {"model", plan.model},
      {"planner", plan.planner},
      {"cluster", plan.cluster},
      {"options", plan.options},
      {"costs", plan.costs},
      {"schedule", schedule_kind_name(plan.schedule)},
      {"optimizer", optimizer_name(plan.optimizer)},
      {"weights", weight_policy_name(plan.weights)},
      {"mini_batch", plan.mini_batch},
      {"samples", page.trace.samples},
      {"micro_batch", micro_batch_text(plan)},
      {"depth", pipeline_depth(plan)},
      {"devices", page.cluster->device_count()},
      {"devices_used", devices_used(plan)},
      {"iteration_s", page.trace.iteration_s},
      {"throughput_samples_per_s", page.trace.throughput_samples_per_s()},
      {"bubble_fraction", page.trace.bubble_fraction()},
      {"peak_bytes", peak_bytes},
      {"lower_bound_s", estimate.lower_bound_s > 0 ? Json(estimate.lower_bound_s) : Json()},
      {"search_s", estimate.search_s},
      {"tick_s", tick_s},
      {"stages", stages_json(page)},
      {"edges", edges_json(plan, *page.graph)},
      {"graph", model_json(plan, *page.graph)}};
  if (!page.trace.events.empty()) {
    json["stage_s"] = predicted_stage_s(page);
    json["timeline"] = TimelineWriter(page, tick_s).json();
  }
  if (page.measured) json["measured"] = measured_json(*page.measured, page, tick_s);
  return json;
}

// Plans compete where they do the same work.
bool comparable(const std::vector<PagePlan>& plans) {
  return std::ranges::all_of(plans, [&](const PagePlan& page) {
    return page.plan.graph_hash == plans[0].plan.graph_hash &&
           page.plan.mini_batch == plans[0].plan.mini_batch &&
           page.plan.cluster == plans[0].plan.cluster &&
           is_asynchronous(page.plan.weights) == is_asynchronous(plans[0].plan.weights);
  });
}

}  // namespace

std::string page_data_json(const std::vector<PagePlan>& plans) {
  Json list = Json::array();
  std::vector<ComparedPlan> rows;
  for (const PagePlan& page : plans) {
    list.push_back(plan_json(page));
    rows.push_back({page.plan.planner, "ok", "", page.plan});
  }
  Json reasons = Json::array();
  for (int i = 0; i <= static_cast<int>(IdleReason::kDone); ++i) {
    reasons.push_back(idle_reason_text(static_cast<IdleReason>(i)));
  }
  const bool compared = comparable(plans);
  return Json{{"version", GP_VERSION},
              {"headline", compared ? headline(rows) : ""},
              {"comparable", compared},
              {"reasons", reasons},
              {"plans", list}}
      .dump();
}

}  // namespace graphpipe

// The invariants P1 to P8 of plan.h.

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/divide_up.h"
#include "base/error.h"
#include "base/hash.h"
#include "graph/order.h"
#include "plan/plan.h"

namespace graphpipe {
namespace {

// Beyond these, products of sizes come near what 64 bits hold.
constexpr std::int64_t kMostSamples = std::int64_t{1} << 26;
constexpr std::int64_t kMostInFlight = std::int64_t{1} << 30;
constexpr int kMostInARow = 1024;

class Checker {
 public:
  Checker(const Plan& plan, const Graph& graph, const Cluster& cluster, const std::string& where)
      : plan_(plan), graph_(graph), cluster_(cluster), where_(where) {}

  void check_partition() const;  // P1
  void check_convexity() const;  // P2
  void check_order() const;      // P3
  void check_edges() const;      // P4
  void check_devices() const;    // P5
  void check_sizes() const;      // P6
  void check_hash() const;       // P7
  void check_stream() const;     // P8

 private:
  [[noreturn]] void fail(const std::string& pointer, const std::string& what) const {
    throw InputError(where_ + ": " + pointer, what);
  }
  static std::string at_stage(std::size_t stage, const char* field) {
    return fmt::format("/stages/{}/{}", stage, field);
  }
  static std::string at_edge(std::size_t edge) { return fmt::format("/edges/{}", edge); }

  std::string named(OpId op) const { return fmt::format("operator '{}'", graph_.op(op).name); }
  std::string named(const std::vector<TensorId>& tensors) const;
  void check_ops_of(std::size_t stage) const;
  void check_edge_ends() const;
  void fail_if_cyclic(const std::vector<StageEdge>& edges) const;
  void compare_edge(const StageEdge& found, std::size_t place, const StageEdge& implied) const;
  void check_sizes_of(std::size_t stage) const;
  void check_stream_of(std::size_t stage) const;

  const Plan& plan_;
  const Graph& graph_;
  const Cluster& cluster_;
  const std::string& where_;
};

std::string Checker::named(const std::vector<TensorId>& tensors) const {
  std::vector<std::string> names;
  for (const TensorId tensor : tensors) {
    const bool exists = tensor.valid() && tensor.index() < graph_.tensors.size();
    names.push_back(exists ? "'" + graph_.tensor(tensor).name + "'"
                           : fmt::format("number {}", tensor.value));
  }
  return names.empty() ? "no tensor" : fmt::format("{}", fmt::join(names, ", "));
}

void Checker::check_ops_of(std::size_t s) const {
  const std::vector<OpId>& ops = plan_.stages[s].ops;
  if (ops.empty()) fail(at_stage(s, "ops"), "P1: the stage has no operator; remove the stage");
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!ops[i].valid() || ops[i].index() >= graph_.op_count()) {
      fail(at_stage(s, "ops"), fmt::format("P1: operator {} does not exist; the graph has {}, "
                                           "counted from 0",
                                           ops[i].value, graph_.op_count()));
    }
    if (i > 0 && ops[i] < ops[i - 1]) {
      fail(at_stage(s, "ops"),
           fmt::format("P1: operators must be ascending, but {} stands before {}", ops[i - 1].value,
                       ops[i].value));
    }
  }
}

void Checker::check_partition() const {
  std::vector<std::optional<std::size_t>> owner(graph_.op_count());
  for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
    check_ops_of(s);
    for (const OpId op : plan_.stages[s].ops) {
      std::optional<std::size_t>& stage = owner[op.index()];
      if (stage) {
        fail(at_stage(s, "ops"), *stage == s
                                     ? fmt::format("P1: {} is listed twice", named(op))
                                     : fmt::format("P1: {} is in stage {} too; it must be in "
                                                   "exactly one",
                                                   named(op), *stage));
      }
      stage = s;
    }
  }
  for (std::size_t i = 0; i < owner.size(); ++i) {
    if (!owner[i]) {
      fail("/stages", fmt::format("P1: {} is in no stage; add it to one", named(OpId(i))));
    }
  }
}

void Checker::check_convexity() const {
  for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
    if (is_convex(graph_, plan_.stages[s].ops)) continue;
    fail(at_stage(s, "ops"),
         "P2: the stage is not convex: a path leaves it and comes back, so it would wait for "
         "itself; add the operators between, or split the stage");
  }
}

void Checker::check_edge_ends() const {
  const auto exists = [&](StageId id) { return id.valid() && id.index() < plan_.stages.size(); };
  for (std::size_t i = 0; i < plan_.edges.size(); ++i) {
    const StageEdge& edge = plan_.edges[i];
    for (const StageId end : {edge.from, edge.to}) {
      if (exists(end)) continue;
      fail(at_edge(i), fmt::format("P3: stage {} does not exist; there are {}, counted from 0",
                                   end.value, plan_.stages.size()));
    }
    if (edge.from == edge.to) {
      fail(at_edge(i),
           fmt::format("P3: the edge joins stage {} with itself; remove it", edge.from.value));
    }
  }
}

// Walks back along edges from stages that no order reaches until a stage repeats.
void Checker::fail_if_cyclic(const std::vector<StageEdge>& edges) const {
  const std::size_t count = plan_.stages.size();
  std::vector<bool> placed(count, false);
  std::vector<StageId> waits_for(count);  // of stages not placed: one that is not either
  for (bool moved = true; moved;) {
    moved = false;
    std::ranges::fill(waits_for, StageId());
    for (const StageEdge& edge : edges) {
      if (!placed[edge.from.index()]) waits_for[edge.to.index()] = edge.from;
    }
    for (std::size_t s = 0; s < count; ++s) {
      if (placed[s] || waits_for[s].valid()) continue;
      placed[s] = true;
      moved = true;
    }
  }
  const auto first = std::ranges::find(placed, false);
  if (first == placed.end()) return;
  std::vector<StageId> walk{StageId(static_cast<std::size_t>(first - placed.begin()))};
  while (true) {
    const StageId before = waits_for[walk.back().index()];
    const bool repeats = std::ranges::find(walk, before) != walk.end();
    walk.push_back(before);
    if (!repeats) continue;
    std::vector<int> cycle;
    for (auto at = walk.rbegin(); at != walk.rend(); ++at) {
      cycle.push_back(at->value);
      if (cycle.size() > 1 && *at == before) break;
    }
    fail("/stages", fmt::format("P3: the stage graph has a cycle: {}; move operators so that no "
                                "stage waits for itself",
                                fmt::join(cycle, " -> ")));
  }
}

void Checker::check_order() const {
  check_edge_ends();
  std::vector<StageEdge> edges = data_edges(graph_, plan_.stages);
  edges.insert(edges.end(), plan_.edges.begin(), plan_.edges.end());
  fail_if_cyclic(edges);
  for (const StageEdge& edge : edges) {
    if (edge.from < edge.to) continue;
    fail(fmt::format("/stages/{}", edge.to.value),
         fmt::format("P3: stage {} stands before stage {}, which must run first; list stages in "
                     "an order in which they can run",
                     edge.to.value, edge.from.value));
  }
}

void Checker::compare_edge(const StageEdge& found, std::size_t place,
                           const StageEdge& implied) const {
  if (found.tensors != implied.tensors) {
    fail(at_edge(place) + "/tensors",
         fmt::format("P4: between stages {} and {} cross {}, but the edge has {}",
                     implied.from.value, implied.to.value, named(implied.tensors),
                     named(found.tensors)));
  }
  if (found.gradient != implied.gradient) {
    fail(at_edge(place) + "/gradient",
         fmt::format("P4: expected {}, since {} comes back from stage {} to {}", implied.gradient,
                     implied.gradient ? "a gradient" : "no gradient", implied.to.value,
                     implied.from.value));
  }
}

void Checker::check_edges() const {
  const auto key = [](const StageEdge& e) { return std::tuple(e.from, e.to, e.kind); };
  const std::vector<StageEdge> implied = data_edges(graph_, plan_.stages);
  std::size_t next = 0;
  for (std::size_t i = 0; i < plan_.edges.size(); ++i) {
    const StageEdge& edge = plan_.edges[i];
    if (i > 0 && key(edge) <= key(plan_.edges[i - 1])) {
      fail(at_edge(i), "P4: edges must be sorted by (from, to, kind), without repeats");
    }
    if (edge.kind == EdgeKind::kOrder) {
      if (!edge.tensors.empty()) {
        fail(at_edge(i) + "/tensors", "P4: an order edge carries no tensor");
      }
      continue;
    }
    if (next < implied.size() && key(implied[next]) == key(edge)) {
      compare_edge(edge, i, implied[next++]);
      continue;
    }
    if (next < implied.size() && key(implied[next]) < key(edge)) break;  // one is missing
    fail(at_edge(i), fmt::format("P4: no tensor crosses from stage {} to stage {}; remove the edge "
                                 "or make it an order edge",
                                 edge.from.value, edge.to.value));
  }
  if (next < implied.size()) {
    fail("/edges", fmt::format("P4: there is no data edge from stage {} to stage {}, though {} "
                               "crosses; add it",
                               implied[next].from.value, implied[next].to.value,
                               named(implied[next].tensors)));
  }
}

void Checker::check_devices() const {
  // [device]: the last stage that has it.
  std::vector<std::optional<std::size_t>> owner(cluster_.device_type.size());
  for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
    const std::vector<DeviceId>& devices = plan_.stages[s].devices;
    if (devices.empty()) {
      fail(at_stage(s, "devices"), "P5: the stage has no device; give it at least one");
    }
    for (const DeviceId device : devices) {
      if (!device.valid() || device.index() >= owner.size()) {
        fail(at_stage(s, "devices"),
             fmt::format("P5: device {} does not exist; the cluster has {}, counted from 0",
                         device.value, owner.size()));
      }
      std::optional<std::size_t>& stage = owner[device.index()];
      if (stage == s) {
        fail(at_stage(s, "devices"), fmt::format("P5: device {} is listed twice", device.value));
      }
      stage = s;
    }
  }
}

void Checker::check_sizes_of(std::size_t s) const {
  const Stage& stage = plan_.stages[s];
  const std::int64_t b = stage.micro_batch;
  if (b < 1 || b > plan_.mini_batch) {
    fail(at_stage(s, "micro_batch"),
         fmt::format("P6: expected 1 to the mini-batch of {}, found {}", plan_.mini_batch, b));
  }
  if (stage.kfkb < 1) {
    fail(at_stage(s, "kfkb"), fmt::format("P6: expected at least 1, found {}", stage.kfkb));
  }
  if (stage.kfkb > kMostInARow) {
    fail(at_stage(s, "kfkb"),
         fmt::format("P6: expected at most {}, found {}", kMostInARow, stage.kfkb));
  }
  if (stage.in_flight_samples > kMostInFlight) {
    fail(at_stage(s, "in_flight_samples"),
         fmt::format("P6: expected at most {}, found {}", kMostInFlight, stage.in_flight_samples));
  }
  const std::int64_t least = std::min(stage.kfkb * b, plan_.mini_batch);
  if (stage.in_flight_samples < least) {
    fail(at_stage(s, "in_flight_samples"),
         fmt::format("P6: expected at least {} ({} micro-batch(es) of {}, in a mini-batch of {}), "
                     "found {}",
                     least, stage.kfkb, b, plan_.mini_batch, stage.in_flight_samples));
  }
  const bool may_be_short =
      stage.in_flight_samples < plan_.mini_batch || is_asynchronous(plan_.weights);
  if (may_be_short && stage.in_flight_samples % b != 0) {
    fail(at_stage(s, "in_flight_samples"),
         fmt::format("P6: expected a multiple of the micro-batch of {}, found {}", b,
                     stage.in_flight_samples));
  }
  if (stage.replication == Replication::kSplit &&
      static_cast<std::int64_t>(stage.devices.size()) > b) {
    fail(at_stage(s, "devices"),
         fmt::format("P6: {} devices split a micro-batch of {}; use at most {} or a larger "
                     "micro-batch",
                     stage.devices.size(), b, b));
  }
}

void Checker::check_sizes() const {
  if (plan_.mini_batch < 1) {
    fail("/mini_batch", fmt::format("P6: expected at least 1, found {}", plan_.mini_batch));
  }
  if (plan_.mini_batch > kMostSamples) {
    fail("/mini_batch",
         fmt::format("P6: expected at most {}, found {}", kMostSamples, plan_.mini_batch));
  }
  for (std::size_t s = 0; s < plan_.stages.size(); ++s) check_sizes_of(s);
}

void Checker::check_stream_of(std::size_t s) const {
  const Stage& stage = plan_.stages[s];
  const bool two = plan_.weights == WeightPolicy::k2bw;
  if (stage.kfkb != 1) {
    fail(at_stage(s, "kfkb"),
         fmt::format("P8: an asynchronous pipeline runs one forward and one backward in turn; "
                     "expected 1, found {}",
                     stage.kfkb));
  }
  const auto width = static_cast<std::int64_t>(stage.devices.size());
  const bool in_turn = stage.replication == Replication::kRoundRobin;
  if (in_turn && stage.in_flight_samples % (stage.micro_batch * width) != 0) {
    fail(at_stage(s, "in_flight_samples"),
         fmt::format("P8: {} devices take turns and step together; expected a multiple of {} "
                     "micro-batches of {}, found {}",
                     width, width, stage.micro_batch, stage.in_flight_samples));
  }
  const std::int64_t share = divide_up(stage.micro_batch, width);
  if (!in_turn && (width - 1) * share >= stage.micro_batch) {
    fail(at_stage(s, "devices"),
         fmt::format("P8: split over {} devices in shares of {}, a micro-batch of {} leaves one "
                     "without work; use fewer devices or another micro-batch",
                     width, share, stage.micro_batch));
  }
  if (stage.recompute) {
    fail(at_stage(s, "recompute"), "P8: an asynchronous pipeline does not run forwards again");
  }
  const std::int64_t expected = two ? plan_.stages[0].micro_batch : plan_.mini_batch;
  if (stage.micro_batch != expected) {
    fail(at_stage(s, "micro_batch"),
         two ? fmt::format("P8: stages have one micro-batch size; expected {}, found {}", expected,
                           stage.micro_batch)
             : fmt::format("P8: an asynchronous pipeline steps after each micro-batch, so that it "
                           "is the mini-batch of {}; found {} (2bw has several)",
                           expected, stage.micro_batch));
  }
  if (two && stage.in_flight_samples > plan_.mini_batch) {
    fail(at_stage(s, "in_flight_samples"),
         fmt::format("P8: 2bw keeps two versions, so that at most the mini-batch of {} may be in "
                     "flight; found {}: take a larger mini-batch",
                     plan_.mini_batch, stage.in_flight_samples));
  }
}

void Checker::check_stream() const {
  if (!is_asynchronous(plan_.weights)) return;
  if (plan_.schedule != ScheduleKind::k1F1B) {
    fail("/schedule", fmt::format("P8: an asynchronous pipeline runs 1f1b, found {}",
                                  schedule_kind_name(plan_.schedule)));
  }
  if (shares_devices(plan_)) {
    fail("/stages", "P8: a device has several stages; an asynchronous pipeline needs one each");
  }
  std::vector<std::optional<std::size_t>> holder(graph_.params.size());
  for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
    check_stream_of(s);
    for (const OpId op : plan_.stages[s].ops) {
      for (const ParamId param : graph_.op(op).params) {
        std::optional<std::size_t>& known = holder[param.index()];
        if (known && *known != s) {
          fail(at_stage(s, "ops"),
               fmt::format("P8: parameter '{}' is of stage {} too, and which of their versions a "
                           "mini-batch would use is not defined; put both operators in one stage",
                           graph_.param(param).name, *known));
        }
        known = s;
      }
    }
  }
  const std::int64_t b = plan_.stages[0].micro_batch;
  if (plan_.mini_batch % b != 0) {
    fail("/mini_batch", fmt::format("P8: expected a multiple of the micro-batch of {}, found {}", b,
                                    plan_.mini_batch));
  }
}

void Checker::check_hash() const {
  const std::uint64_t found = graph_hash(graph_);
  if (found == plan_.graph_hash) return;
  fail("/graph_hash",
       fmt::format("P7: the plan was made for a graph with hash {}, but '{}' has {}; plan again "
                   "for this model",
                   hash_text(plan_.graph_hash), graph_.name, hash_text(found)));
}

}  // namespace

void validate(const Plan& plan, const Graph& graph, const Cluster& cluster,
              const std::string& where) {
  const Checker checker(plan, graph, cluster, where);
  checker.check_partition();
  checker.check_convexity();
  checker.check_order();
  checker.check_edges();
  checker.check_devices();
  checker.check_sizes();
  checker.check_hash();
  checker.check_stream();
}

}  // namespace graphpipe

#include "equivalence/random_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/counter_random.h"
#include "equivalence/partitions.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kCaseWidth = 6;  // of every value
constexpr std::int64_t kIds = 4;
constexpr std::int64_t kCaseEntries = 20;
constexpr int kKinds = static_cast<int>(RandomOpKind::kMetric) + 1;
constexpr int kMostRanks = 6;

// What a case's operators are built from.
class GraphOfCase {
 public:
  GraphOfCase() : g_("random", DType::kFloat64) {
    x_ = g_.input("x", {kCaseWidth});
    ids_ = g_.input("ids", DType::kInt64, {kIds});
    values_ = {x_};
  }

  void add(const RandomOp& op) {
    const std::string name = fmt::format("op{}", count_++);
    const TensorId a = value(op.a);
    switch (op.kind) {
      case RandomOpKind::kLinear:
        return keep(g_.linear(name, a, kCaseWidth));
      case RandomOpKind::kTiedLinear:
        if (!tied_.valid()) tied_ = g_.param("tied", {kCaseWidth, kCaseWidth}, uniform());
        return keep(g_.add_op(name, OpKind::kLinear, {a}, {tied_}, {})[0]);
      case RandomOpKind::kFrozenLinear: {
        const ParamId weight =
            g_.param(name + ".frozen", {kCaseWidth, kCaseWidth}, uniform(), false);
        return keep(g_.add_op(name, OpKind::kLinear, {a}, {weight}, {})[0]);
      }
      case RandomOpKind::kGelu:
        return keep(g_.gelu(name, a));
      case RandomOpKind::kAdd:
        return keep(g_.add(name, {a, value(op.b)}));
      case RandomOpKind::kMul:
        return keep(g_.mul(name, a, value(op.b)));
      case RandomOpKind::kLayerNorm:
        return keep(g_.layer_norm(name, a));
      case RandomOpKind::kDropout:
        return keep(g_.dropout(name, a, 0.3));
      case RandomOpKind::kIds: {
        const TensorId some = g_.slice(name + ".some", ids_, 0, op.b % 2, 2);
        return keep(g_.embedding_bag(name, some, kCaseEntries, kCaseWidth, "mean", 0.5));
      }
      case RandomOpKind::kLoss:
        return g_.loss(g_.mse_loss(name, a, x_), 0.3,
                       op.b % 2 == 0 ? Normaliser::kSum : Normaliser::kMeanOverSamples);
      case RandomOpKind::kMetric:
        return g_.metric(name, "mean", g_.mse_loss(name + ".error", a, x_));
    }
  }

  Graph finish() && {
    const TensorId last = g_.linear("last", values_.back(), kCaseWidth);
    g_.loss(g_.mse_loss("loss", last, x_), 0.7);
    return std::move(g_).build();
  }

 private:
  static Init uniform() { return {InitKind::kUniform, 0.5}; }
  TensorId value(int i) const { return values_[static_cast<std::size_t>(i) % values_.size()]; }
  void keep(TensorId made) { values_.push_back(made); }

  GraphBuilder g_;
  TensorId x_;
  TensorId ids_;
  ParamId tied_;
  std::vector<TensorId> values_;
  int count_ = 0;
};

int ranks_of(const RandomCase& c) {
  return std::accumulate(c.stages.begin(), c.stages.end(), 0,
                         [](int sum, const RandomStage& stage) { return sum + stage.width; });
}

RandomStage random_stage(const CounterRandom& random, std::uint64_t& drawn, std::int64_t size) {
  const auto below = [&](std::uint64_t n) { return static_cast<int>(random.below(drawn++, n)); };
  RandomStage stage;
  stage.micro_batch = size > 0 ? size : 1 + below(4);
  stage.in_turn = below(2) == 0;
  const int most =
      stage.in_turn ? 3 : static_cast<int>(std::min<std::int64_t>(3, stage.micro_batch));
  if (below(2) == 0) stage.width = 1 + below(static_cast<std::uint64_t>(most));
  if (below(4) == 0) stage.kfkb = 1 + below(3);
  stage.recompute = below(3) == 0;
  return stage;
}

}  // namespace

RandomCase random_case(std::uint64_t seed) {
  const CounterRandom random(seed);
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t n) { return static_cast<int>(random.below(drawn++, n)); };
  RandomCase c;
  for (int ops = 2 + below(10); ops > 0; --ops) {
    // Mostly one of the last values: long paths, with a skip here and there.
    const int made = static_cast<int>(c.ops.size());
    const auto pick = [&] { return below(3) == 0 ? below(12) : made - below(2); };
    c.ops.push_back(
        {static_cast<RandomOpKind>(below(kKinds)), std::max(0, pick()), std::max(0, pick())});
  }
  const std::int64_t one_size = below(2) == 0 ? 1 + below(4) : 0;
  for (int stages = 1 + below(5); stages > 0; --stages) {
    RandomStage stage = random_stage(random, drawn, one_size);
    const int left = kMostRanks - ranks_of(c) - (stages - 1);
    stage.width = std::clamp(stage.width, 1, left);
    c.stages.push_back(stage);
  }
  c.partition = random.bits(drawn++) >> 40;
  c.mini_batch = 1 + below(16);
  constexpr std::array kSchedules{ScheduleKind::k1F1B, ScheduleKind::k1F1B, ScheduleKind::kGpipe,
                                  ScheduleKind::kZbH1};
  c.schedule = kSchedules[static_cast<std::size_t>(below(kSchedules.size()))];
  c.chain = below(3) == 0;
  c.optimizer = below(2) == 0 ? OptimizerKind::kSgd : OptimizerKind::kSgdMomentum;
  c.clip = below(4) == 0;
  if (below(4) == 0) c.shared_ranks = 1 + below(3);
  return c;
}

std::string to_text(const RandomCase& c) {
  std::string text = fmt::format("mini-batch {}, {}{}, {}{}, partition {}, {} shared ranks; stages",
                                 c.mini_batch, schedule_kind_name(c.schedule),
                                 c.chain ? ", chain" : "", optimizer_name(c.optimizer),
                                 c.clip ? " clipped" : "", c.partition, c.shared_ranks);
  for (const RandomStage& stage : c.stages) {
    text += fmt::format(" (b {}, {} {}, k {}{})", stage.micro_batch,
                        stage.in_turn ? "in turn" : "split", stage.width, stage.kfkb,
                        stage.recompute ? ", recompute" : "");
  }
  text += "; ops";
  for (const RandomOp& op : c.ops) {
    text += fmt::format(" ({} {} {})", static_cast<int>(op.kind), op.a, op.b);
  }
  return text;
}

Graph graph_of(const RandomCase& c) {
  GraphOfCase graph;
  for (const RandomOp& op : c.ops) graph.add(op);
  return std::move(graph).finish();
}

Plan plan_of(const RandomCase& c, const Graph& graph) {
  const int stages =
      std::min(static_cast<int>(c.stages.size()), static_cast<int>(graph.op_count()));
  Plan plan = cut_graph(graph, {.stages = stages,
                                .seed = c.partition,
                                .mini_batch = c.mini_batch,
                                .micro_batch = 1,
                                .schedule = c.schedule,
                                .chain = c.chain});
  plan.optimizer = c.optimizer;
  std::vector<std::int64_t> sizes;
  int next = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const RandomStage& own = c.stages[s];
    Stage& stage = plan.stages[s];
    sizes.push_back(std::min(own.micro_batch, c.mini_batch));
    stage.replication = own.in_turn ? Replication::kRoundRobin : Replication::kSplit;
    stage.kfkb = own.kfkb;
    stage.recompute = own.recompute;
    const int width = own.in_turn ? own.width : std::min(own.width, static_cast<int>(sizes.back()));
    stage.devices.clear();
    for (int i = 0; i < width; ++i) stage.devices.emplace_back(next++);
  }
  set_micro_batches(plan, sizes);
  return plan;
}

Lesson lesson_of(const RandomCase& c, std::int64_t samples) {
  Lesson lesson;
  for (std::int64_t first : {0, 20}) {
    const std::int64_t size = first == 0 ? c.mini_batch : (c.mini_batch + 1) / 2;
    std::vector<std::int64_t> batch;
    for (std::int64_t i = 0; i < size; ++i) batch.push_back((first + 3 * i) % samples);
    lesson.batches.push_back(std::move(batch));
  }
  for (std::int64_t i = 0; i < c.mini_batch + 2; ++i) lesson.evaluated.push_back((7 * i) % samples);
  lesson.options.optimizer = c.optimizer;
  lesson.options.learning_rate = 0.05;
  lesson.options.clip = c.clip ? 0.5 : 0;
  lesson.options.momentum = c.optimizer == OptimizerKind::kSgdMomentum ? 0.9 : 0;
  lesson.options.weight_decay = c.partition % 2 == 0 ? 0.01 : 0;
  lesson.options.clip = c.partition % 3 == 0 ? 0.5 : 0;
  lesson.options.accumulate = 1 + static_cast<std::int64_t>(c.partition / 2 % 2);
  return lesson;
}

std::vector<RandomCase> simpler_cases(const RandomCase& c) {
  std::vector<RandomCase> simpler;
  const auto try_with = [&](auto change) {
    RandomCase changed = c;
    change(changed);
    simpler.push_back(std::move(changed));
  };
  if (c.stages.size() > 1) try_with([](RandomCase& one) { one.stages.pop_back(); });
  for (std::size_t i = 0; i < c.ops.size(); ++i) {
    try_with(
        [&](RandomCase& one) { one.ops.erase(one.ops.begin() + static_cast<std::ptrdiff_t>(i)); });
  }
  if (c.mini_batch > 1) {
    try_with([](RandomCase& one) { one.mini_batch /= 2; });
    try_with([](RandomCase& one) { --one.mini_batch; });
  }
  if (c.schedule != ScheduleKind::k1F1B) {
    try_with([](RandomCase& one) { one.schedule = ScheduleKind::k1F1B; });
  }
  if (c.clip) try_with([](RandomCase& one) { one.clip = false; });
  if (c.shared_ranks > 0) {
    try_with([](RandomCase& one) { one.shared_ranks = 0; });
    try_with([](RandomCase& one) { --one.shared_ranks; });
  }
  if (c.chain) try_with([](RandomCase& one) { one.chain = false; });
  if (c.optimizer != OptimizerKind::kSgd) {
    try_with([](RandomCase& one) { one.optimizer = OptimizerKind::kSgd; });
  }
  for (std::size_t s = 0; s < c.stages.size(); ++s) {
    if (c.stages[s].width > 1) try_with([&](RandomCase& one) { --one.stages[s].width; });
    if (c.stages[s].micro_batch > 1)
      try_with([&](RandomCase& one) { --one.stages[s].micro_batch; });
    if (c.stages[s].kfkb > 1) try_with([&](RandomCase& one) { --one.stages[s].kfkb; });
    if (c.stages[s].recompute) {
      try_with([&](RandomCase& one) { one.stages[s].recompute = false; });
    }
    if (c.stages[s].in_turn) try_with([&](RandomCase& one) { one.stages[s].in_turn = false; });
  }
  return simpler;
}

}  // namespace graphpipe

#include "job/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "plan/plan_json.h"
#include "plan/stage_memory.h"
#include "schedule/placement.h"

namespace graphpipe {
namespace {

template <typename T>
void require_same(const std::string& where, const char* what, const T& made, const T& now,
                  const char* remedy) {
  if (made == now) return;
  throw InputError(
      where, fmt::format("was made with {} {}, and this run has {}; {}", what, made, now, remedy));
}

template <typename T>
void note_change(std::vector<std::string>& notes, const char* what, const T& made, const T& now) {
  if (made == now) return;
  notes.push_back(
      fmt::format("goes on with {} {}, the checkpoint was made with {}", what, now, made));
}

}  // namespace

std::vector<std::vector<int>> parameter_holders(const Plan& plan, const Graph& graph) {
  std::vector<std::vector<int>> holders(graph.params.size());
  const std::vector<std::vector<Placement>> ranks = placements(plan);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const Placement& own : ranks[rank]) {
      for (const ParamId param : stage_params(graph, plan.stage(own.stage).ops)) {
        std::vector<int>& held = holders[param.index()];
        if (held.empty() || held.back() != static_cast<int>(rank)) {
          held.push_back(static_cast<int>(rank));
        }
      }
    }
  }
  return holders;
}

CheckpointManifest describe_run(const Plan& plan, const Graph& graph, const TrainOptions& train,
                                std::int64_t samples, const std::string& data) {
  CheckpointManifest manifest;
  manifest.mode = train.checkpoint.mode;
  manifest.data = data;
  manifest.samples = samples;
  manifest.model = plan.model;
  manifest.graph_hash = graph_hash(graph);
  manifest.plan_hash = plan_hash(plan);
  manifest.plan = to_json(plan, graph);
  manifest.mini_batch = plan.mini_batch;
  manifest.ranks = devices_used(plan);
  manifest.train = train;
  return manifest;
}

std::vector<std::string> check_resumable(const CheckpointManifest& made,
                                         const CheckpointManifest& now, const std::string& where) {
  if (made.graph_hash != now.graph_hash) {
    throw InputError(where, fmt::format("is of the model {}, graph {}, and the plan's is {}, graph "
                                        "{}; plan the model that was trained",
                                        made.model, hash_text(made.graph_hash), now.model,
                                        hash_text(now.graph_hash)));
  }
  const TrainOptions& before = made.train;
  const TrainOptions& train = now.train;
  require_same(where, "a mini-batch of", made.mini_batch, now.mini_batch,
               "plan with the same --mini-batch");
  require_same(where, "a data set of", made.samples, now.samples, "give the same --data");
  require_same(where, "seed", before.seed, train.seed, "give the same --seed");
  require_same(where, "numbers of type", dtype_name(before.floating), dtype_name(train.floating),
               "plan the model that was trained");
  require_same(where, "optimizer", optimizer_name(before.optimizer),
               optimizer_name(train.optimizer), "give the same --optimizer and --momentum");
  require_same(where, "mini-batches a step", before.accumulate, train.accumulate,
               "give the same --accumulate");
  if (made.progress.iteration % train.accumulate != 0) {
    throw InputError(where, fmt::format("/iteration: {} is within a step of {} mini-batches",
                                        made.progress.iteration, train.accumulate));
  }
  std::vector<std::string> notes;
  note_change(notes, "--data", made.data, now.data);
  note_change(notes, "--lr", before.learning_rate, train.learning_rate);
  note_change(notes, "--lr-schedule", to_text(before.rate_schedule), to_text(train.rate_schedule));
  note_change(notes, "--momentum", before.momentum, train.momentum);
  note_change(notes, "--weight-decay", before.weight_decay, train.weight_decay);
  note_change(notes, "--clip", before.clip, train.clip);
  return notes;
}

}  // namespace graphpipe

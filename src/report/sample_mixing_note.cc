#include <fmt/format.h>

#include <algorithm>

#include "report/text_report.h"

namespace graphpipe {
namespace {

// "batch_norm normalises over the samples of a stage's micro-batch"; "": nothing mixes.
std::string subject(const Graph& graph) {
  std::string names;
  for (const OpKind kind : sample_mixing_kinds(graph)) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", op_kind_name(kind));
  }
  return names.empty() ? "" : names + " normalises over the samples of a stage's micro-batch";
}

// Samples that one device of the stage normalises over.
std::int64_t share(const Stage& stage) {
  const auto d = static_cast<std::int64_t>(stage.devices.size());
  return stage.replication == Replication::kSplit ? (stage.micro_batch + d - 1) / d
                                                  : stage.micro_batch;
}

bool mixes(const Graph& graph, const Stage& stage) {
  return std::ranges::any_of(stage.ops, [&](OpId op) { return mixes_samples(graph.op(op).kind); });
}

}  // namespace

std::string sample_mixing_note(const Graph& graph) {
  const std::string what = subject(graph);
  return what.empty() ? "" : what + " (ceil(b/d) on d devices); the result depends on the plan";
}

std::string sample_mixing_note(const Graph& graph, const Plan& plan) {
  const std::string what = subject(graph);
  if (what.empty()) return "";
  std::vector<std::int64_t> shares;
  for (const Stage& stage : plan.stages) {
    if (mixes(graph, stage)) shares.push_back(share(stage));
  }
  if (shares.empty()) return "";
  const auto [low, high] = std::ranges::minmax(shares);
  return fmt::format("{}, here {} (ceil(b/d) on d devices); the result depends on it", what,
                     low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high));
}

}  // namespace graphpipe

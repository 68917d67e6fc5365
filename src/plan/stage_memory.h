// What a stage needs of a device's memory, by part. One rule for planners, verifier,
// reports and the runtime's comparison.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cost/cost_model.h"
#include "cost/task_memory.h"
#include "plan/plan.h"

namespace graphpipe {

struct StageMemory {
  std::int64_t weights_bytes = 0;
  std::int64_t gradients_bytes = 0;
  std::int64_t optimizer_bytes = 0;
  std::int64_t saved_bytes = 0;       // activations in flight, on the fullest replica; of a stage
                                      // that recomputes, the inputs of all tasks in flight and
                                      // the rest of one (of all where backwards are in
                                      // halves)
  std::int64_t last_saved_bytes = 0;  // of these, of a mini-batch's last task
  std::int64_t buffers_bytes = 0;     // messages on the way in or out, beyond what is saved
  std::int64_t workspace_bytes = 0;   // beside them while a task runs, at its worst operator
  std::int64_t step_bytes = 0;        // temporaries of the optimiser's step, when nothing is saved
  std::int64_t reduction_bytes = 0;   // of gradients over replicas, within the last backward
  std::int64_t versions_bytes = 0;    // of weights beside the newest, of an asynchronous plan
  std::int64_t step_saved_bytes = 0;  // what is saved while a step runs: of an asynchronous plan
  // Of an asynchronous plan: sums come with every step.
  std::int64_t stream_reduction_bytes() const { return step_saved_bytes > 0 ? reduction_bytes : 0; }
  std::int64_t static_bytes() const { return weights_bytes + gradients_bytes + optimizer_bytes; }
  std::int64_t total() const {
    return static_bytes() + versions_bytes + buffers_bytes +
           std::max({saved_bytes + workspace_bytes,
                     last_saved_bytes + workspace_bytes + reduction_bytes,
                     step_saved_bytes + std::max(step_bytes, stream_reduction_bytes())});
  }
};

// What training a parameter needs beside its value. The step's temporaries are the
// library's: Adam makes two tensors of the parameter's size, one parameter after the other.
struct ParamMemory {
  std::int64_t weight_bytes = 0;
  std::int64_t gradient_bytes = 0;
  std::int64_t optimizer_bytes = 0;
  std::int64_t step_bytes = 0;
};
ParamMemory param_memory(const Parameter& param, OptimizerKind optimizer);

// How many numbers it keeps for each of a parameter's: 0, 1 or 2.
int optimizer_moments(OptimizerKind optimizer);

// Parameters of the stage's operators, each once, ascending.
std::vector<ParamId> stage_params(const Graph& graph, const std::vector<OpId>& ops);

// Weights, gradients, optimiser state and step of the stage's parameters.
StageMemory stage_static_memory(const Graph& graph, const std::vector<OpId>& ops,
                                OptimizerKind optimizer);

// Gradients are summed in buckets of at most so many bytes, a larger parameter alone: larger
// ones wait for more of the backward, smaller ones pay more latencies.
inline constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;

// What the sum of a bucket over `holders` ranks takes on each of them, beside the gradients.
struct ReductionMemory {
  std::int64_t started_bytes = 0;  // messages, from the start to the wait's end
  std::int64_t start_bytes = 0;    // beside them, while it is started
  std::int64_t wait_bytes = 0;     // beside them, while it is waited for
};
ReductionMemory reduction_memory(std::int64_t bucket_bytes, std::int64_t holders);
// At most that, for gradients of so many bytes in all, of which the largest parameter's are
// `largest_bytes`: two buckets are on the way at a time.
std::int64_t reduction_bound_bytes(std::int64_t gradient_bytes, std::int64_t largest_bytes,
                                   std::int64_t holders);

// Bytes of one message over the edge that carries `samples` samples: the tensors (each
// padded to 64 bytes), the sample ids (8 bytes each) and a header of kMessageHeaderBytes;
// an order edge's message is the header and the ids alone. The same in both directions
// but that a backward message carries only tensors with a gradient.
inline constexpr std::int64_t kMessageHeaderBytes = 128;
std::int64_t message_bytes(const Graph& graph, const StageEdge& edge, std::int64_t samples,
                           bool backward);
// The same for callers that ask often: `needs` is needs_gradient(graph).
std::int64_t message_bytes(const Graph& graph, const std::vector<bool>& needs,
                           const StageEdge& edge, std::int64_t samples, bool backward);

// How many messages of one channel (edge, direction, pair of ranks) may be on the way,
// in samples of the consumer: the receiver posts so many ahead and the sender keeps at
// most so many. At least two messages, and a whole number of the consumer's; more where
// the producer may run ahead of the consumer: by its warm_up_samples() beyond the
// consumer's and one task (all in flight where ranks hold several stages, for these take
// turns), and by what the stages on a path between them take at once.
// At most the mini-batch. See docs/runtime.md for why fewer can stop a graph pipeline.
// Requires: stages in an order in which they can run, edges sorted.
std::int64_t channel_window_samples(const Plan& plan, const StageEdge& edge);

// An upper bound of what the verifier counts on any device of the stage; where devices hold
// several stages, of what each adds.
StageMemory stage_memory(const Plan& plan, const Graph& graph, const CostModel& costs,
                         const DeviceType& device, StageId stage);
// The same for callers that ask often: `facts` is training_facts() of the graph, `task_memories`
// are the costs'.
StageMemory stage_memory(const Plan& plan, const Graph& graph, const TrainingFacts& facts,
                         TaskMemories& task_memories, const DeviceType& device, StageId stage);

}  // namespace graphpipe

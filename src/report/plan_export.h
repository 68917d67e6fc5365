// Plans in the forms of other tools.

#pragma once

#include <string>

#include "graph/graph.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

namespace graphpipe {

// Graphviz: a box a stage with its operators, devices and sizes; solid edges carry tensors, dashed
// ones only order.
std::string plan_dot(const Plan& plan, const Graph& graph);

// PipeDream's runtime configuration: the stage of each operator in the graph's order, the ranks of
// each stage, and its warm-up depth (micro-batches that a replica starts before its first backward,
// less one).
std::string pipedream_conf(const Plan& plan, const Graph& graph);

// PyTorch's pipeline schedule with communication: a line a rank, a cell an action, such as 0F1,
// 1B0, 0SEND_F1, 1RECV_F1. Extended for graphs of stages, where a stage has several neighbours: of
// a message the other stage and the other end's rank stand behind it, "0SEND_F1>2@3" (from stage 0,
// micro-batch 1, to stage 2 on rank 3), "2RECV_F1<0@0". Requires: a lowered schedule.
std::string schedule_csv(const Plan& plan, const Schedule& schedule);

}  // namespace graphpipe

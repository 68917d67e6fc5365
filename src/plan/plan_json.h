// The file form of a Plan: NAME.plan.json, described in docs/formats.md. Also what
// `graphpipe plan --json` prints.
//
//   {"format": "graphpipe-plan", "version": 1, "status": "ok",
//    "model": "mmt", "graph_hash": "0123456789abcdef", "planner": "graphpipe",
//    "cluster": "summit:8", "options": "dp", "costs": "analytic", "devices": 8,
//    "mini_batch": 64, "micro_batch": 4, "schedule": "1f1b", "optimizer": "sgd",
//    "depth": 3, "search_s": 0.1,
//    "stages": [{"id": 0, "ops": ["text.fc", "text.relu"], "op_ids": [0, 1],
//                "devices": [0, 1], "replication": "split", "recompute": false,
//                "micro_batch": 4, "in_flight_samples": 12, "kfkb": 1,
//                "memory_bytes": 123456, "tps_s": 0.001}, ...],
//    "edges": [{"from": 0, "to": 2, "kind": "data", "tensors": ["text.relu"],
//               "tensor_ids": [5], "gradient": true, "bytes_per_sample": 4096}, ...],
//    "iteration_s": 0.1, "throughput_samples_per_s": 640, "bubble_fraction": 0.2,
//    "lower_bound_s": 0.08, "gap": 0.25}
//
// Operators and tensors are read by op_ids and tensor_ids: their numbers in the graph,
// whose hash stands above. The names beside them, one for each, are for people. What
// follows from the rest is written and not read: status, devices (how many are used),
// micro_batch of the plan (null where stages differ), depth, id, bytes_per_sample (of the
// tensors, without header), gap (iteration_s / lower_bound_s - 1, null without a bound).
// memory_bytes and tps_s are null where the plan was not judged.

#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace graphpipe {

// Reads the fields; call validate() with the graph and cluster afterwards. Throws
// InputError("FILE: /stages/3/devices", ...).
Plan parse_plan(std::string_view json, const std::string& file);

// `graph` names operators and tensors. parse_plan(to_json(p, g)) equals p.
std::string to_json(const Plan& plan, const Graph& graph);

}  // namespace graphpipe

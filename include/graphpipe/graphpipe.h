// graphpipe as a library: all that a program needs to build or read a model, plan it, and train
// it by the plan, with data sets and operators of its own.
//
//   Graph          what is computed          GraphBuilder, load_model(), parse_graph()
//   CustomOp       an operator of one's own  register_custom_op(), GraphBuilder::custom()
//   Cluster        devices and links         preset_cluster("local:4"), parse_cluster()
//   CostModel      seconds and bytes         AnalyticCosts, ProfiledCosts(profile_locally())
//   Plan           stages on devices         make_plan(), parse_plan(); plan_text()
//   Dataset        samples                   MemoryDataset, open_dataset(), or derive from it
//   Weights        values of parameters      train_locally(), parse_safetensors()
//
// Each header below says what its functions return and require, and by which errors they
// complain: InputError where the world gave something wrong (it names the place, what was
// expected and what was found), RunError where a run failed after it began. Units stand in
// names: _s seconds, _bytes, _per_s. Shapes leave out the sample, which is dimension 0 at run
// time of what is batched.
//
// With CMake: find_package(graphpipe REQUIRED) and the target graphpipe::graphpipe, which needs no
// libtorch. profile_locally() and train_locally() are in graphpipe::runtime, of component runtime,
// which does: find_package(graphpipe REQUIRED COMPONENTS runtime). No header here includes
// libtorch's.
//
// The libraries are static: a program is compiled and linked with one version of them. What these
// headers do not show may change with every version.

#pragma once

#include "api/planning.h"
#include "base/error.h"
#include "cluster/cluster.h"
#include "cluster/cluster_json.h"
#include "cluster/presets.h"
#include "cost/analytic.h"
#include "cost/cost_model.h"
#include "cost/profile.h"
#include "cost/profile_json.h"
#include "data/dataset.h"
#include "data/memory_dataset.h"
#include "graph/builder.h"
#include "graph/custom_op.h"
#include "graph/graph.h"
#include "graph/graph_json.h"
#include "graph/weights.h"
#include "graphpipe/version.h"
#include "models/models.h"
#include "plan/plan.h"
#include "plan/plan_json.h"
#include "runtime/local_training.h"

// Fields that several of this room's file forms have.

#pragma once

#include "base/json_reader.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace graphpipe {

// Throw InputError where the value is none.
OptimizerKind read_optimizer(const JsonReader& json);
DType read_floating(const JsonReader& json);

}  // namespace graphpipe

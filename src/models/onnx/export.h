// From a Graph and its weights to an ONNX model for inference: what its losses are taken of
// are the outputs, and losses, labels and metrics are left out. Every batched tensor has the
// samples, a dimension called N, first.

#pragma once

#include "graph/graph.h"
#include "graph/weights.h"
#include "models/onnx/onnx_model.h"

namespace graphpipe {

// Weights of every parameter that is not given in the graph are to be in `weights`, which comes
// first where both have one. Throws InputError(where, ...) where one is missing or unlike, and
// where an operator has no form in ONNX, naming it.
OnnxModel export_onnx(const Graph& graph, const Weights& weights, const std::string& where);

}  // namespace graphpipe

// Operators by family, by ONNX's names.

#pragma once

#include "models/onnx/importer.h"

namespace graphpipe::onnx_import {

// registry.cc. Axes in ONNX's counting.
Value reduced(Importer& m, std::string_view function, const Value& x, const Shape& axes, bool keep);

// products.cc
void matmul(Importer& m);
void gemm(Importer& m);
void conv(Importer& m);
void conv_transpose(Importer& m);

// pools.cc
void pool(Importer& m);
void global_pool(Importer& m);

// Windows of a node, along its spatial dimensions. products.cc
struct Windows {
  Shape kernel, stride, dilation;
  Shape before, after;  // paddings, auto_pad worked out
};
// How many spatial dimensions the input has: 1 or 2, behind samples and channels; fails else.
std::size_t spatial_dimensions(Importer& m, const Value& x);
// `extents`: of the spatial dimensions; `kernel`: where no attribute says it.
Windows windows_of(Importer& m, const Shape& extents, const Shape& kernel);
bool symmetric(const Windows& windows);

// normalise.cc
void batch_normalization(Importer& m);
void instance_normalization(Importer& m);
void layer_normalization(Importer& m);
void group_normalization(Importer& m);
void local_response_normalization(Importer& m);
void lp_normalization(Importer& m);
void mean_variance(Importer& m);
void likelihood_loss(Importer& m);

// recurrent.cc
void recurrent(Importer& m);

// resize.cc
void resize(Importer& m);

}  // namespace graphpipe::onnx_import

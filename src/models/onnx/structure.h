// Operators that arrange, by ONNX's names: shapes, slices, gathers, and constants.

#pragma once

#include "models/onnx/importer.h"

namespace graphpipe::onnx_import {

// Attribute axes, or the input of that number; empty where there is neither.
Shape axes_of(Importer& m, std::size_t input);

void identity(Importer& m);
void cast(Importer& m);
void cast_like(Importer& m);
void reshape(Importer& m);
void flatten(Importer& m);
void squeeze(Importer& m);
void unsqueeze(Importer& m);
void transpose(Importer& m);
void concat(Importer& m);
void split(Importer& m);
void slice(Importer& m);
void gather(Importer& m);
void gather_elements(Importer& m);
void expand(Importer& m);
void tile(Importer& m);
void pad(Importer& m);
void shape(Importer& m);
void size(Importer& m);
void constant_of_shape(Importer& m);
void constant(Importer& m);
void range(Importer& m);
void depth_to_space(Importer& m);
void space_to_depth(Importer& m);
void one_hot(Importer& m);
void trilu(Importer& m);
void eye_like(Importer& m);

}  // namespace graphpipe::onnx_import

#pragma once

#include <string>

namespace graphpipe {

// "ONNX opset 11 to 22, protobuf 3.21.12": what is read, and by which library.
std::string onnx_libraries();

}  // namespace graphpipe

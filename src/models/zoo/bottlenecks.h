// Residual networks of bottleneck blocks: ResNet-50 and ResNeXt-50.

#pragma once

#include <string>

#include "models/zoo/parts.h"

namespace graphpipe {

struct Bottlenecks {
  std::int64_t groups = 1;  // of a block's 3x3 convolution
  std::int64_t widths = 1;  // of the 3x3 convolution, in units of the ResNet block's
};

// A 7x7 convolution, sixteen bottleneck blocks in four groups (3, 4, 6 and 3, or
// arguments["blocks"] in each), a mean and a linear layer. A block that halves the image does it in
// its 3x3 convolution. Reads the parameters of bottleneck_parameters().
Graph bottleneck_network(const std::string& name, const ZooArguments& arguments, DType floating,
                         const Bottlenecks& blocks);

std::vector<ZooParameter> bottleneck_parameters();

}  // namespace graphpipe

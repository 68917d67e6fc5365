// ResNeXt-50 32x4d (Xie et al., "Aggregated Residual Transformations for Deep Neural Networks",
// CVPR 2017, table 1): ResNet-50 with 3x3 convolutions twice as wide, in 32 groups. 25,028,904
// trained parameters at the published sizes.

#include <fmt/format.h>

#include "base/error.h"
#include "models/zoo/bottlenecks.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

Graph build_resnext50(const ZooArguments& arguments, DType floating) {
  const Bottlenecks blocks{.groups = arguments["groups"], .widths = 2};
  if (blocks.widths * arguments["width"] % blocks.groups != 0) {
    throw InputError("MODEL", fmt::format("groups is {}, expected a divisor of {}, twice width",
                                          blocks.groups, blocks.widths * arguments["width"]));
  }
  return bottleneck_network("resnext50", arguments, floating, blocks);
}

}  // namespace

ZooModel resnext50_model() {
  std::vector<ZooParameter> parameters = bottleneck_parameters();
  parameters.push_back({"groups", 32, 1, 4096, "groups of the 3x3 convolutions"});
  return {"resnext50", "ResNeXt-50 32x4d: bottleneck blocks of grouped convolutions (CVPR 2017)",
          parameters, build_resnext50};
}

}  // namespace graphpipe

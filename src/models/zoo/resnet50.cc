// ResNet-50 (He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, table 1):
// a 7x7 convolution, sixteen bottleneck blocks in four groups, a mean and a linear layer.
// 25,557,032 trained parameters at the published sizes.
// Departs from the paper: a block that halves the image does it in its 3x3 convolution and
// not in its first 1x1, as is usual now; it costs 4.1 instead of 3.8 billion multiply-adds.

#include "models/zoo/bottlenecks.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

Graph build_resnet50(const ZooArguments& arguments, DType floating) {
  return bottleneck_network("resnet50", arguments, floating, {});
}

}  // namespace

ZooModel resnet50_model() {
  return {"resnet50", "ResNet-50: bottleneck blocks with shortcuts (CVPR 2016)",
          bottleneck_parameters(), build_resnet50};
}

}  // namespace graphpipe

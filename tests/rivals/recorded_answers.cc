#include "rivals/recorded_answers.h"

namespace graphpipe {
namespace {

constexpr double kGiB = 0x1p30;

}  // namespace

// clang-format off
std::vector<RecordedPipedream> recorded_pipedream() {
  return {
      {"vgg16", "n4", {{4, 1e9}}, true, false, 0, 0.205521, 5e-7, 0.5},
      {"vgg16", "n16", {{16, 1e9}}, true, false, 0, 0.0565298, 5e-8, 0.6},
      {"vgg16", "n4x4", {{4, 12e9}, {4, 1.25e9}}, true, false, 0, 0.0668888, 5e-8, 0.6},
      {"vgg16", "n4-noacr", {{4, 1e9}}, false, false, 0, 0.175733, 5e-7, 0.5},
      {"vgg16", "n16-noacr", {{16, 1e9}}, false, false, 0, 0.0473865, 5e-8, 0.5},
      {"vgg16", "n4-straight", {{4, 1e9}}, true, true, 0, 0.411042, 5e-7, 0.4},
      {"vgg16", "n16-mem", {{16, 1e9}}, true, false, 16e9, 0.0565298, 5e-8, 0.5},
      {"vgg16", "n8x2", {{8, 25e9}, {2, 3.125e9}}, true, false, 0, 0.0657667, 5e-8, 0.7},
      {"vgg16", "n16-b1.25", {{16, 1.25e9}}, true, false, 0, 0.0547949, 5e-8, 0.5},
      {"vgg16", "n16-b12", {{16, 12e9}}, true, false, 0, 0.0430299, 5e-8, 0.4},
      {"alexnet", "n4", {{4, 1e9}}, true, false, 0, 0.0342171, 5e-8, 0.4},
      {"alexnet", "n16", {{16, 1e9}}, true, false, 0, 0.0188744, 5e-8, 0.5},
      {"alexnet", "n4x4", {{4, 12e9}, {4, 1.25e9}}, true, false, 0, 0.0150995, 5e-8, 0.4},
      {"alexnet", "n4-noacr", {{4, 1e9}}, false, false, 0, 0.0231658, 5e-8, 0.4},
      {"alexnet", "n16-noacr", {{16, 1e9}}, false, false, 0, 0.00732457, 5e-9, 0.4},
      {"alexnet", "n4-straight", {{4, 1e9}}, true, true, 0, 0.0664535, 5e-8, 0.3},
      {"alexnet", "n16-mem", {{16, 1e9}}, true, false, 16e9, 0.0188744, 5e-8, 0.4},
      {"alexnet", "n8x2", {{8, 25e9}, {2, 3.125e9}}, true, false, 0, 0.009709, 5e-7, 0.4},
      {"alexnet", "n16-b1.25", {{16, 1.25e9}}, true, false, 0, 0.0150995, 5e-8, 0.4},
      {"alexnet", "n16-b12", {{16, 12e9}}, true, false, 0, 0.00566898, 5e-9, 0.5},
      {"gnmt", "n4", {{4, 1e9}}, true, false, 0, 0.025868, 5e-7, 0.5},
      {"gnmt", "n16", {{16, 1e9}}, true, false, 0, 0.019285, 5e-7, 1.0},
      {"gnmt", "n4x4", {{4, 12e9}, {4, 1.25e9}}, true, false, 0, 0.011081, 5e-7, 1.2},
      {"gnmt", "n4-noacr", {{4, 1e9}}, false, false, 0, 0.025868, 5e-7, 0.5},
      {"gnmt", "n16-noacr", {{16, 1e9}}, false, false, 0, 0.0183796, 5e-8, 0.8},
      {"gnmt", "n4-straight", {{4, 1e9}}, true, true, 0, 0.025868, 5e-7, 0.5},
      {"gnmt", "n16-mem", {{16, 1e9}}, true, false, 16e9, 0.019285, 5e-7, 0.9},
      {"gnmt", "n8x2", {{8, 25e9}, {2, 3.125e9}}, true, false, 0, 0.00989323, 5e-9, 4.1},
      {"gnmt", "n16-b1.25", {{16, 1.25e9}}, true, false, 0, 0.017125, 5e-7, 0.8},
      {"gnmt", "n16-b12", {{16, 12e9}}, true, false, 0, 0.011081, 5e-7, 0.7},
      {"squeezenet1_0", "n4", {{4, 1e9}}, true, false, 0, 0.074414, 5e-7, 0.5},
      {"squeezenet1_0", "n16", {{16, 1e9}}, true, false, 0, 0.0188813, 5e-8, 1.0},
      {"squeezenet1_0", "n4x4", {{4, 12e9}, {4, 1.25e9}}, true, false, 0, 0.0186144, 5e-8, 1.3},
      {"resnet50", "n4", {{4, 1e9}}, true, false, 0, 0.162881, 5e-7, 0.7},
      {"resnet50", "n16", {{16, 1e9}}, true, false, 0, 0.0478013, 5e-8, 3.4},
      {"resnet50", "n4x4", {{4, 12e9}, {4, 1.25e9}}, true, false, 0, 0.0432085, 5e-8, 19.8},
      {"resnet50", "n4-noacr", {{4, 1e9}}, false, false, 0, 0.111497, 5e-7, 0.7},
      {"resnet50", "n16-noacr", {{16, 1e9}}, false, false, 0, 0.029212, 5e-7, 2.7},
      {"inception_v3", "n4, chains joined", {{4, 1e9}}, true, false, 0, 0.227279, 5e-7, 17.4, true},
      {"inception_v3", "n16, chains joined", {{16, 1e9}}, true, false, 0, 0.0650893, 5e-8, 131.5, true},
  };
}

std::vector<RecordedPiper> recorded_piper() {
  return {
      {"piper/bert32a100", 8, 2 * kGiB, 25 * kGiB, 0, 0.09},
      {"piper/bert32a100", 32, 2 * kGiB, 25 * kGiB, 0.0665495, 0.21},
      {"piper/bert32a100", 64, 2 * kGiB, 25 * kGiB, 0.0320301, 0.30},
      {"piper/bert32a100", 128, 2 * kGiB, 25 * kGiB, 0.0151464, 0.64},
      {"piper/bert32a100", 256, 2 * kGiB, 25 * kGiB, 0.00758007, 4.55},
      {"piper/bert32a100", 8, 8 * kGiB, 25 * kGiB, 0.165856, 0.08},
      {"piper/bert32a100", 32, 8 * kGiB, 25 * kGiB, 0.0415155, 0.13},
      {"piper/bert32a100", 64, 8 * kGiB, 25 * kGiB, 0.0202006, 0.21},
      {"piper/bert32a100", 128, 8 * kGiB, 25 * kGiB, 0.0101209, 0.49},
      {"piper/bert32a100", 256, 8 * kGiB, 25 * kGiB, 0.00508105, 2.56},
      {"piper/bert32a100", 512, 8 * kGiB, 25 * kGiB, 0.00256113, 13.66},
      {"piper/bert32a100", 1024, 8 * kGiB, 25 * kGiB, 0.00130318, 70.25},
      {"piper/bert32a100", 8, 0, 0, 0.122037, 0.06},
      {"piper/bert32a100", 32, 0, 0, 0.0308766, 0.16},
      {"piper/bert32a100", 64, 0, 0, 0.0156833, 0.30},
      {"piper/bert32a100", 128, 0, 0, 0.00808663, 0.72},
      {"piper/bert32a100", 256, 0, 0, 0.00428471, 3.42},
      {"piper/bert32a100", 512, 0, 0, 0.00229306, 17.62},
      {"piper/resnet", 8, 4 * kGiB, 25 * kGiB, 73.4933, 2.77},
      {"piper/resnet", 8, 8 * kGiB, 25 * kGiB, 63.4335, 3.04},
      {"piper/resnet", 16, 2 * kGiB, 25 * kGiB, 76.5213, 4.42},
      {"piper/resnet", 16, 4 * kGiB, 25 * kGiB, 35.3334, 5.20},
      {"piper/resnet", 32, 1.5 * kGiB, 25 * kGiB, 50.9772, 7.41},
      {"piper/resnet", 32, 4 * kGiB, 25 * kGiB, 17.624, 7.70},
      {"piper/resnet", 64, 1 * kGiB, 25 * kGiB, 0, 8.84},
      {"piper/resnet", 64, 4 * kGiB, 25 * kGiB, 8.66677, 11.48},
      {"piper/resnet", 128, 1 * kGiB, 25 * kGiB, 19.8563, 12.12},
      {"piper/resnet", 128, 4 * kGiB, 25 * kGiB, 4.30571, 12.21},
      {"branchy/candle_b2_fc4", 4, 0, 0, 0.00580684, 0.02},
      {"branchy/candle_b2_fc4", 8, 0, 0, 0.00310119, 0.02},
      {"branchy/candle_b2_fc4", 16, 0, 0, 0.00203891, 0.02},
      {"branchy/candle_b2_fc4", 32, 0, 0, 0.00118723, 0.03},
      {"branchy/candle_b4_fc4", 4, 0, 0, 0.00993349, 0.61},
      {"branchy/candle_b4_fc4", 8, 0, 0, 0.00514388, 0.60},
      {"branchy/candle_b4_fc4", 16, 0, 0, 0.00307119, 0.94},
      {"branchy/candle_b4_fc4", 32, 0, 0, 0.00206803, 1.23},
      {"branchy/mmt_b2_l8_layer", 4, 0, 0, 0.0366248, 0.04},
      {"branchy/mmt_b2_l8_layer", 8, 0, 0, 0.0190237, 0.04},
      {"branchy/mmt_b2_l8_layer", 16, 0, 0, 0.0100361, 0.06},
      {"branchy/mmt_b2_l8_layer", 32, 0, 0, 0.0053842, 0.11},
      {"branchy/mmt_b2_l8_op", 4, 0, 0, 0.0366417, 6.62},
      {"branchy/mmt_b2_l8_op", 8, 0, 0, 0.0193589, 8.06},
      {"branchy/mmt_b2_l8_op", 16, 0, 0, 0.0102039, 13.20},
      {"branchy/mmt_b2_l8_op", 32, 0, 0, 0.00555197, 16.78},
      {"branchy/mmt_b4_l8_layer", 4, 0, 0, 0.0732496, 127.49, false},
      {"branchy/mmt_b4_l8_layer", 8, 0, 0, 0.0380474, 150.92, false},
      {"branchy/mmt_b4_l8_layer", 16, 0, 0, 0.0200723, 216.08, false},
      {"branchy/mmt_b4_l8_layer", 32, 0, 0, 0.0107684, 253.88, false},
  };
}

std::vector<RecordedMaxLoad> recorded_max_load() {
  return {
      {"bert24_training", 41.7458, 5e-5, 0.02},
      {"gnmt_training", 107.004, 5e-4, 31.44, false},
      {"resnet50_training", 78.6318, 5e-5, 0.16},
      {"operators_bert_l-3_training", 65.3031, 5e-5, 5.07},
  };
}
// clang-format on

}  // namespace graphpipe

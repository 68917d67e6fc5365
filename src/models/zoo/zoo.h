// The models of the zoo, one a file. models.cc lists them.

#pragma once

#include "models/models.h"

namespace graphpipe {

ZooModel alexnet_model();
ZooModel bert_model();
ZooModel candle_uno_model();
ZooModel clip_model();
ZooModel digits_model();
ZooModel dlrm_model();
ZooModel gnmt_model();
ZooModel gpt_model();
ZooModel inception_v3_model();
ZooModel mmt_model();
ZooModel movielens_model();
ZooModel nasnet_cell_model();
ZooModel resnet50_model();
ZooModel resnext50_model();
ZooModel s2vt_model();
ZooModel transformer_model();
ZooModel two_branch_model();
ZooModel unet_model();
ZooModel vgg16_model();

}  // namespace graphpipe

// The models of the zoo, one a file. models.cc lists them.

#pragma once

#include "models/models.h"

namespace graphpipe {

ZooModel candle_uno_model();
ZooModel digits_model();
ZooModel dlrm_model();
ZooModel mmt_model();
ZooModel movielens_model();
ZooModel resnet50_model();
ZooModel transformer_model();
ZooModel two_branch_model();
ZooModel unet_model();
ZooModel vgg16_model();

}  // namespace graphpipe

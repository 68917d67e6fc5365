// Sizes and multiply-adds of other papers' models as published, or by formulas of their papers'
// sizes where nobody published them.

#include <gtest/gtest.h>

#include <initializer_list>

#include "base/error.h"
#include "models/models.h"
#include "models/zoo/test_counts.h"

namespace graphpipe {
namespace {

std::string zoo_fault(const std::string& model) {
  try {
    load_model(model);
    return "none";
  } catch (const InputError& error) {
    return error.what();
  }
}

// torchvision's table of classification models: 61,100,840 parameters, 0.71 billion.
TEST(AlexNet, HasThePublishedSize) {
  const Graph graph = load_model("alexnet");
  EXPECT_EQ(parameter_count(graph), 61'100'840);
  EXPECT_NEAR(billion_multiply_adds(graph), 0.71, 0.005);
  const std::map<std::string, int> expected{{"conv2d", 5},     {"correct", 1}, {"cross_entropy", 1},
                                            {"dropout", 2},    {"linear", 3},  {"relu", 7},
                                            {"max_pool2d", 3}, {"reshape", 1}};
  EXPECT_EQ(kinds(graph), expected);
}

TEST(AlexNet, NeedsAnImageThatIsNotLostOnTheWay) {
  EXPECT_EQ(parameter_count(load_model("alexnet:image=63,width=2,hidden=3,classes=5,dropout=0")),
            (121 * 3 * 2 + 2) + (25 * 2 * 6 + 6) + (9 * 6 * 12 + 12) + (9 * 12 * 8 + 8) +
                (9 * 8 * 8 + 8) + (8 * 3 + 3) + (3 * 3 + 3) + (3 * 5 + 5));
  EXPECT_EQ(zoo_fault("alexnet:image=62"),
            "MODEL: image is 62, expected 63 to 4096 (height and width of an image)");
  EXPECT_EQ(zoo_fault("alexnet:width=3"), "MODEL: width is 3, expected a multiple of 2");
}

// torchvision's table: 25,028,904 parameters, 4.23 billion.
TEST(ResNext50, HasThePublishedSize) {
  const Graph graph = load_model("resnext50");
  EXPECT_EQ(parameter_count(graph), 25'028'904);
  EXPECT_NEAR(billion_multiply_adds(graph), 4.23, 0.005);
  EXPECT_EQ(kinds(graph), kinds(load_model("resnet50")));
}

TEST(ResNext50, GroupsDivideTheWindowsChannels) {
  EXPECT_EQ(zoo_fault("resnext50:width=8"),
            "MODEL: groups is 32, expected a divisor of 16, twice width");
}

// torchvision: 27,161,264 parameters, 23,834,568 without the auxiliary classifier, of which its
// table has 5.71 billion.
TEST(InceptionV3, HasThePublishedSize) {
  EXPECT_EQ(parameter_count(load_model("inception-v3")), 27'161'264);
  const Graph graph = load_model("inception-v3:auxiliary=0");
  EXPECT_EQ(parameter_count(graph), 23'834'568);
  EXPECT_NEAR(billion_multiply_adds(graph), 5.71, 0.005);
  EXPECT_EQ(kinds(graph)["conv2d"], 94);
  EXPECT_EQ(kinds(graph)["concat"], 11 + 2 * 2);
}

TEST(InceptionV3, TheAuxiliaryClassifierHasALossOfItsOwn) {
  const Graph graph = load_model("inception-v3");
  ASSERT_EQ(graph.losses.size(), 2U);
  EXPECT_EQ(graph.losses[0].weight, 1);
  EXPECT_EQ(graph.losses[1].weight, 0.4);
}

TEST(InceptionV3, Shrinks) {
  const Graph graph = load_model("inception-v3:image=75,width=2,modules=1,classes=7,batch_norm=0");
  EXPECT_EQ(kinds(graph)["batch_norm"], 0);
  EXPECT_EQ(kinds(graph)["concat"], 3 + 2 + 2);
  const Tensor& pooled = graph.tensor(graph.ops.back().inputs[0]);
  EXPECT_EQ(pooled.shape, std::vector<std::int64_t>({7}));
  EXPECT_EQ(zoo_fault("inception-v3:width=33"), "MODEL: width is 33, expected a multiple of 2");
}

// 5,289,978: the authors' mobile model as Keras and timm have it; 564 million in the paper's
// table 3, in windows padded as TensorFlow pads them.
TEST(NasNetCell, HasThePublishedSize) {
  const Graph graph = load_model("nasnet-cell");
  EXPECT_EQ(parameter_count(graph), 5'289'978);
  EXPECT_NEAR(billion_multiply_adds(graph), 0.564, 0.01 * 0.564);
}

TEST(NasNetCell, HasFiveSumsACell) {
  EXPECT_EQ(kinds(load_model("nasnet-cell"))["add"], 5 * (2 + 4 + 1 + 4 + 1 + 4));
  EXPECT_EQ(kinds(load_model("nasnet-cell:groups=1,cells=1"))["add"], 5 * 3);
  EXPECT_EQ(zoo_fault("nasnet-cell:filters=6"), "MODEL: filters is 6, expected a multiple of 4");
}

// An LSTM with PyTorch's two biases a gate.
std::int64_t lstm(std::int64_t in, std::int64_t hidden) {
  return 4 * hidden * (in + hidden) + 2 * 4 * hidden;
}

// By formula; PipeDream's first report (arXiv:1806.03377) has 349 MB.
TEST(S2vt, HasThePapersSize) {
  constexpr std::int64_t H = 1000;   // hidden units
  constexpr std::int64_t E = 500;    // embeddings
  constexpr std::int64_t V = 46168;  // words
  constexpr std::int64_t F = 4096;   // features of a frame
  const std::int64_t parameters = (F * E + E) + V * E + lstm(E, H) + lstm(H + E, H) + (H * V + V);
  const Graph graph = load_model("s2vt");
  EXPECT_EQ(parameter_count(graph), parameters);
  EXPECT_NEAR(4e-6 * static_cast<double>(parameters), 349, 0.5);
  const double steps = 80.0 * 4 * H * ((E + H) + (H + E + H));
  EXPECT_NEAR(billion_multiply_adds(graph), 1e-9 * (60.0 * F * E + steps + 20.0 * H * V), 1e-9);
  EXPECT_EQ(inputs(graph), std::vector<std::string>({"frames float32 (60, 4096)",
                                                     "words int64 (20)", "label int64 (20)"}));
}

// By formula; Shazeer et al. ("Outrageously Large Neural Networks", ICLR 2017, table 4) have 278
// million parameters and 214 million multiply-adds a step for the paper's model, the lowest
// layer of whose decoder reads a context that this one does not.
TEST(Gnmt, HasThePapersSize) {
  constexpr std::int64_t H = 1024;
  constexpr std::int64_t V = 32000;
  const std::int64_t encoder = 2 * lstm(H, H) + lstm(2 * H, H) + 6 * lstm(H, H);
  const std::int64_t decoder = lstm(H, H) + 7 * lstm(2 * H, H);
  const Graph graph = load_model("gnmt");
  const std::int64_t parameters = 2 * V * H + encoder + decoder + 2 * H * H + (H * V + V);
  EXPECT_EQ(parameter_count(graph), parameters);
  EXPECT_NEAR(1e-6 * static_cast<double>(parameters), 278, 0.01 * 278);

  constexpr double T = 50;  // word pieces on either side
  const double step = (2 * 8 + 12 + 6 * 8) * H * H + (8 + 7 * 12) * H * H + 2 * H * H + V * H;
  const double attention = 2 * T * H;  // scores and their sum
  EXPECT_NEAR(billion_multiply_adds(graph), 1e-9 * T * (step + attention), 1e-9);
  EXPECT_NEAR(1e-6 * (step + attention), 214, 0.02 * 214);
}

TEST(Gnmt, SumsFromTheThirdLayerOn) {
  EXPECT_EQ(kinds(load_model("gnmt:layers=2"))["add"], 0);
  EXPECT_EQ(kinds(load_model("gnmt:layers=4"))["add"], 4);
}

// A Transformer layer of width C: attention's four matrices and biases, two norms, two linear
// layers four times as wide.
std::int64_t transformer_layer(std::int64_t C) { return 12 * C * C + 13 * C; }
double transformer_layer_multiply_adds(double T, double C) {
  return 12 * T * C * C + 2 * T * T * C;
}

// 109,482,240: BertModel of Hugging Face's transformers for bert-base-uncased; its
// BertForPreTraining has 110,106,428. Sun et al. ("MobileBERT", ACL 2020, table 4) have 22.5
// billion operations for a sequence of 128, without heads.
TEST(Bert, HasThePublishedSize) {
  constexpr std::int64_t C = 768;
  constexpr std::int64_t V = 30522;
  const Graph graph = load_model("bert");
  const std::int64_t heads = (C * C + C) + 2 * C + V + (2 * C + 2);  // the table is tied
  EXPECT_EQ(parameter_count(graph), 109'482'240 + heads);
  EXPECT_EQ(parameter_count(graph), 110'106'428);
  const double encoder = 12 * transformer_layer_multiply_adds(128, C);
  const double masked = 20.0 * C * C + 20.0 * C * V;
  EXPECT_NEAR(billion_multiply_adds(graph), 1e-9 * (encoder + masked + C * C + 2 * C), 1e-9);
  EXPECT_NEAR(2e-9 * encoder, 22.5, 0.01 * 22.5);
}

TEST(Bert, LearnsMaskedTokensAndNextSentences) {
  const Graph graph = load_model("bert:masked=5,sequence=9");
  EXPECT_EQ(inputs(graph), std::vector<std::string>({"tokens int64 (9)", "positions int64 (9)",
                                                     "segments int64 (9)", "label int64 (5)",
                                                     "follows int64 ()"}));
  EXPECT_EQ(graph.losses.size(), 2U);
  EXPECT_EQ(zoo_fault("bert:masked=128"),
            "MODEL: masked is 128, expected less than sequence, which is 128");
  EXPECT_EQ(zoo_fault("bert:sequence=513"),
            "MODEL: positions is 512, expected no less than sequence, which is 513");
}

// 124,439,808: GPT2LMHeadModel of Hugging Face's transformers for gpt2; 291,648,307,200 operations
// of a forward in nanoGPT's transformer_sizing.ipynb.
TEST(Gpt, HasThePublishedSize) {
  constexpr std::int64_t C = 768;
  const Graph graph = load_model("gpt");
  EXPECT_EQ(parameter_count(graph), 124'439'808);
  EXPECT_EQ(parameter_count(graph), 50257 * C + 1024 * C + 12 * transformer_layer(C) + 2 * C);
  EXPECT_NEAR(2e9 * billion_multiply_adds(graph), 291'648'307'200.0, 1);
}

TEST(Gpt, TheOutputLayerIsTheTableOfTokens) {
  const Graph graph = load_model("gpt:layers=1");
  const auto holder = [&](const std::string& name) {
    return std::ranges::find(graph.ops, name, &Operator::name)->params;
  };
  EXPECT_EQ(holder("embedding"), holder("logits"));
  const auto attention =
      std::ranges::find(graph.ops, OpKind::kAttention, [](const Operator& op) { return op.kind; });
  EXPECT_TRUE(attention->flag("causal"));
}

// 151,277,313 parameters: OpenAI's ViT-B/32; open_clip's model profile has 87.85 million of them
// and 8.82 billion operations for the image, 63.43 million and 5.96 billion for the text.
TEST(Clip, HasThePublishedSize) {
  constexpr std::int64_t I = 768, T = 512, E = 512;  // widths: image, text, what both say
  const std::int64_t image =
      32 * 32 * 3 * I + I + 50 * I + 2 * I + 12 * transformer_layer(I) + 2 * I + I * E;
  const std::int64_t text = 49408 * T + 77 * T + 12 * transformer_layer(T) + 2 * T + T * E;
  const Graph graph = load_model("clip");
  EXPECT_EQ(image + text + 1, 151'277'313);
  EXPECT_EQ(parameter_count(graph), image + text + 1);
  EXPECT_NEAR(2 * billion_multiply_adds(graph), 8.82 + 5.96, 0.02);
}

TEST(Clip, HasTwoTowersOfShapesOfTheirOwn) {
  const Graph graph = load_model(
      "clip:layers=1,image=8,channels=1,patch=4,image_width=6,image_heads=3,tokens=5,"
      "vocabulary=11,text_width=4,text_heads=2,outputs=3");
  EXPECT_EQ(parameter_count(graph), 16 * 6 + 6 + 5 * 6 + 12 + transformer_layer(6) + 12 + 6 * 3 +
                                        11 * 4 + 5 * 4 + transformer_layer(4) + 8 + 4 * 3 + 1);
  EXPECT_EQ(inputs(graph), std::vector<std::string>(
                               {"image float32 (1, 8, 8)", "text int64 (5)", "match float32 ()"}));
  EXPECT_EQ(zoo_fault("clip:patch=33"),
            "MODEL: image is 224, expected a multiple of patch, which is 33");
}

// By the paper's figure 1: windows of 3x3 at sizes that shrink by two pixels each, 2x2 up.
TEST(UNet, HasThePapersMultiplyAdds) {
  const auto windows = [](double side, double in, double out) {
    return 9 * in * out * (side - 2) * (side - 2) + 9 * out * out * (side - 4) * (side - 4);
  };
  double expected = 0;
  double side = 572;
  double in = 1;
  for (const double width : {64.0, 128.0, 256.0, 512.0}) {
    expected += windows(side, in, width);
    side = (side - 4) / 2;
    in = width;
  }
  expected += windows(side, 512, 1024);
  side -= 4;
  for (const double width : {512.0, 256.0, 128.0, 64.0}) {
    expected += 4 * (2 * width) * width * side * side;
    side *= 2;
    expected += windows(side, 2 * width, width);
    side -= 4;
  }
  expected += 64 * 2 * side * side;
  EXPECT_NEAR(billion_multiply_adds(load_model("unet")), 1e-9 * expected, 1e-9);
}

}  // namespace
}  // namespace graphpipe

#include "models/models.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/json_reader.h"
#include "graph/graph_json.h"

namespace graphpipe {
namespace {

std::string fault(const std::string& model) {
  try {
    load_model(model);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// What load_model() says of a file with this content, less the file's path.
std::string file_fault(const std::string& name, std::string_view content) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / fmt::format("gp_models_{}_{}", getpid(), name);
  write_file(path, content);
  std::string message = fault(path);
  std::filesystem::remove(path);
  EXPECT_EQ(message.substr(0, path.string().size()), path.string());
  return message.substr(path.string().size());
}

TEST(LoadModel, SaysWhichModelsThereAre) {
  const std::string names =
      "alexnet, bert, candle-uno, clip, digits, dlrm, gnmt, gpt, inception-v3, mmt, movielens, "
      "nasnet-cell, resnet50, resnext50, s2vt, transformer, two-branch, unet, vgg16, or a file "
      "that "
      "exists";
  EXPECT_EQ(fault("mtm"),
            "MODEL: unknown model \"mtm\" (did you mean \"mmt\"?); expected one of " + names);
  EXPECT_EQ(fault("seqgan:layers=2"), "MODEL: unknown model \"seqgan\"; expected one of " + names);
}

TEST(LoadModel, SaysWhichParametersThereAre) {
  EXPECT_EQ(fault("mmt:brnaches=2"),
            "MODEL: unknown parameter \"brnaches\" (did you mean \"branches\"?); the model has "
            "branches, layers, sequence, hidden, heads, ffn, outputs, dropout");
  EXPECT_EQ(fault("digits:zzz=2"),
            "MODEL: unknown parameter \"zzz\"; the model has hidden, dropout");
}

TEST(LoadModel, RefusesValuesThatDoNotFit) {
  EXPECT_EQ(fault("mmt:branches=0"),
            "MODEL: branches is 0, expected 1 to 256 (branches, one a modality)");
  EXPECT_EQ(fault("mmt:branches=257"),
            "MODEL: branches is 257, expected 1 to 256 (branches, one a modality)");
  EXPECT_EQ(fault("mmt:branches=two"), "MODEL: branches: expected a whole number, found \"two\"");
  EXPECT_EQ(fault("mmt:branches="), "MODEL: branches: expected a whole number, found \"\"");
  EXPECT_EQ(fault("mmt:branches"),
            "MODEL: expected NAME=VALUE behind \"mmt:\", found \"branches\"");
  EXPECT_EQ(fault("mmt:branches=2,layers=1,branches=2"), "MODEL: branches: stands twice; keep one");
}

TEST(LoadModel, NamesTheChoices) {
  EXPECT_EQ(fault("candle-uno:variant=flexfow"),
            "MODEL: variant: expected paper or flexflow, found \"flexfow\" (did you mean "
            "\"flexflow\"?)");
  EXPECT_EQ(fault("candle-uno:variant=1"),
            "MODEL: variant: expected paper or flexflow, found \"1\"");
}

TEST(LoadModel, RefusesSizesThatDoNotDivide) {
  EXPECT_EQ(fault("mmt:hidden=100"),
            "MODEL: hidden is 100, expected a multiple of heads, which is 16");
  EXPECT_EQ(fault("transformer:heads=3"),
            "MODEL: hidden is 1024, expected a multiple of heads, which is 3");
  EXPECT_EQ(fault("two-branch:hidden=8"),
            "MODEL: hidden is 8, expected a multiple of heads, which is 16");
  EXPECT_EQ(fault("vgg16:image=100"),
            "MODEL: image is 100, expected a multiple of 32: the model halves it five times");
  EXPECT_EQ(fault("unet:image=512"),
            "MODEL: image is 512, expected 188 and any multiple of 16 more, so that each of 4 "
            "halvings is even");
  EXPECT_EQ(fault("unet:image=500,padding=1,depth=3"),
            "MODEL: image is 500, expected 8 and any multiple of 8 more, so that each of 3 "
            "halvings is even");
  EXPECT_EQ(fault("movielens:title_dim=12"), "MODEL: title_dim is 12, expected a multiple of 8");
  EXPECT_EQ(fault("movielens:use_user=0,use_film=0,use_title=0,use_genre=0"),
            "MODEL: expected at least one of use_user, use_film, use_title and use_genre to be 1");
}

TEST(LoadModel, BlanksAndAnEmptyListAreFine) {
  EXPECT_EQ(load_model("digits:").params.size(), load_model("digits").params.size());
  EXPECT_EQ(load_model("digits: hidden=8 , dropout=0").param(ParamId(0)).shape[0], 8);
}

TEST(LoadModel, ReadsItsOwnFiles) {
  const Graph graph = load_model("digits:hidden=8");
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / fmt::format("gp_models_{}.json", getpid());
  write_file(path, "\n " + to_json(graph));
  const Graph again = load_model(path);
  std::filesystem::remove(path);
  EXPECT_EQ(graph_hash(again), graph_hash(graph));
}

TEST(LoadModel, NamesFormsThatItDoesNotRead) {
  const std::string supported =
      "; supported: this program's graph JSON (\"format\": \"graphpipe-graph\"), PipeDream's "
      "graph.txt, ONNX, Piper's and dnn-partitioning's JSON, and the models of `graphpipe models`";
  EXPECT_EQ(file_fault("model.onnx", std::string_view("\x08\x07\x12\x07pytorch", 11)),
            ": is of opset none, expected 11 to 22; export it anew for one of these");
  EXPECT_EQ(file_fault("list.json", "[1, 2]"), ": JSON of a form that is not known" + supported);
  EXPECT_EQ(file_fault("notes.txt", "hello"), ": not a model file that is known" + supported);
  EXPECT_EQ(file_fault("empty", " \n"), ": the file is empty");
}

TEST(LoadModel, PointsIntoAFileThatIsWrong) {
  EXPECT_EQ(
      file_fault("plan.json", R"({"format": "graphpipe-plan", "version": 1})"),
      ": /format: expected \"graphpipe-graph\", found \"graphpipe-plan\"; this is not a graph");
  EXPECT_EQ(file_fault("broken.json", "{\n}}"),
            ":2:2: not valid JSON: syntax error while parsing value - unexpected '}'; expected end "
            "of input");
  EXPECT_EQ(fault("no/such.json"), "no/such.json: cannot read: No such file or directory");
  EXPECT_EQ(fault("."), ".: cannot read: it is a folder, and a file is expected");
}

TEST(Zoo, IsSortedByName) {
  EXPECT_TRUE(std::is_sorted(zoo().begin(), zoo().end(),
                             [](const ZooModel& a, const ZooModel& b) { return a.name < b.name; }));
}

TEST(Zoo, DefaultsAreInRange) {
  for (const ZooModel& model : zoo()) {
    EXPECT_FALSE(model.summary.empty());
    for (const ZooParameter& p : model.parameters) {
      EXPECT_LE(p.low, p.value) << model.name << " " << p.name;
      EXPECT_GE(p.high, p.value) << model.name << " " << p.name;
      EXPECT_FALSE(p.meaning.empty()) << model.name << " " << p.name;
    }
  }
}

TEST(Zoo, EveryModelSurvivesItsFile) {
  for (const ZooModel& model : zoo()) {
    for (const DType floating : {DType::kFloat32, DType::kFloat64}) {
      const Graph graph = load_model(model.name, floating);
      const Graph again = parse_graph(to_json(graph), "g.json");
      EXPECT_EQ(graph_hash(again), graph_hash(graph)) << model.name;
      EXPECT_EQ(to_json(again), to_json(graph)) << model.name;
    }
  }
}

TEST(Zoo, FloatingTypeHoldsThroughout) {
  for (const ZooModel& model : zoo()) {
    const Graph graph = load_model(model.name, DType::kFloat64);
    for (const Tensor& t : graph.tensors) {
      EXPECT_NE(t.dtype, DType::kFloat32) << model.name << " " << t.name;
    }
    for (const Parameter& p : graph.params) {
      EXPECT_EQ(p.dtype, DType::kFloat64) << model.name << " " << p.name;
    }
  }
}

TEST(Zoo, EveryParameterTakesItsSmallestValue) {
  for (const ZooModel& model : zoo()) {
    for (const ZooParameter& p : model.parameters) {
      const std::string text = fmt::format("{}:{}={}", model.name, p.name, value_text(p, p.low));
      const std::string message = fault(text);
      // A width of 1 has no 16 heads, an image of 1 no halves; nothing else may be wrong.
      const bool does_not_go_with_another = std::ranges::any_of(
          std::initializer_list<const char*>{
              "expected a multiple of heads", "expected a multiple of image_heads",
              "expected a multiple of text_heads", "expected less than sequence",
              "expected no less than sequence", ", twice width", "MODEL: image is 1, expected "},
          [&](const char* part) { return message.find(part) != std::string::npos; });
      EXPECT_TRUE(message.empty() || does_not_go_with_another) << text << ": " << message;
    }
  }
}

TEST(Zoo, EveryParameterOfAModelHasAGradient) {
  for (const ZooModel& model : zoo()) {
    const Graph graph = load_model(model.name);
    const std::vector<bool> needed = needs_gradient(graph);
    std::vector<bool> trained(graph.params.size(), false);
    for (const Operator& op : graph.ops) {
      for (const ParamId p : op.params) trained[p.index()] = needed[op.outputs[0].index()];
    }
    for (std::size_t i = 0; i < trained.size(); ++i) {
      if (!graph.params[i].trainable) continue;  // running statistics
      EXPECT_TRUE(trained[i]) << model.name << " " << graph.params[i].name;
    }
  }
}

}  // namespace
}  // namespace graphpipe

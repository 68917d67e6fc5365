// Trains an ONNX model, of two branches, over a pipeline of three ranks, with samples that this
// program makes while training asks for them.
//
//   train_onnx twins.onnx

#include <graphpipe/graphpipe.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>

using namespace graphpipe;

namespace {

constexpr std::int64_t kWidth = 16;

// Two vectors and whether they point the same way. Any code may stand in read(): a decoder, a
// query, an augmentation. Ranks call it at the same time, so a sample depends on its id alone.
class Twins : public Dataset {
 public:
  Twins() {
    fields_ = {{"left", DType::kFloat32, {kWidth}},
               {"right", DType::kFloat32, {kWidth}},
               {"label", DType::kInt64, {}}};
  }
  std::string name() const override { return "twins"; }
  std::int64_t samples() const override { return 4000; }
  const std::vector<Field>& fields() const override { return fields_; }

  void read(const Field& field, std::span<const std::int64_t> ids, std::byte* out) const override {
    const auto bytes = static_cast<std::size_t>(field.bytes_per_sample());
    for (const std::int64_t id : ids) {
      const Sample sample(id);
      const void* from = field.name == "left"    ? static_cast<const void*>(sample.left)
                         : field.name == "right" ? static_cast<const void*>(sample.right)
                                                 : static_cast<const void*>(&sample.label);
      std::memcpy(out, from, bytes);
      out += bytes;
    }
  }

 private:
  struct Sample {
    explicit Sample(std::int64_t id) : label(id % 2) {
      std::mt19937 random(static_cast<unsigned>(id));
      std::normal_distribution<float> normal;
      for (std::int64_t i = 0; i < kWidth; ++i) {
        left[i] = normal(random);
        right[i] = (label == 1 ? left[i] : -left[i]) + 0.5f * normal(random);
      }
    }
    float left[kWidth];
    float right[kWidth];
    std::int64_t label;
  };
  std::vector<Field> fields_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: train_onnx twins.onnx\n";
    return EXIT_FAILURE;
  }
  try {
    const Graph graph = load_model(std::string(argv[1]) + ":loss=cross_entropy,labels=label");
    const Cluster cluster = preset_cluster("local:3");
    const AnalyticCosts costs;
    PlanRequest request;
    request.mini_batch = 128;
    request.options.data_parallel = false;
    request.options.all_devices = true;
    request.options.micro_batches = {32};
    request.options.optimizer = OptimizerKind::kAdam;
    const PlanAnswer answer = make_plan(graph, cluster, costs, request);
    if (answer.status != PlanStatus::kOk) {
      std::cerr << "no plan: " << answer.reason << "\n";
      return EXIT_FAILURE;
    }
    std::cout << answer.plan.stages.size() << " stages, depth " << pipeline_depth(answer.plan)
              << "\n";
    LocalTraining training;
    training.epochs = 4;
    training.learning_rate = 0.003;
    training.on_evaluation = [](const EvaluationLine& line) {
      std::cout << "epoch " << line.epoch << ": validation accuracy "
                << line.validation.at("accuracy") << "\n";
    };
    const LocalTrainingResult result =
        train_locally(answer.plan, graph, cluster, costs, Twins(), training);
    std::cout << "test accuracy " << result.done.metrics.at("accuracy") << ", "
              << result.weights.size() << " trained parameters\n";
    return EXIT_SUCCESS;
  } catch (const std::runtime_error& error) {  // InputError, RunError
    std::cerr << "error: " << error.what() << "\n";
    return EXIT_FAILURE;
  }
}

// An operator of one's own, y = x * sigmoid(slope * x) with a learned slope for each channel: its
// forward and backward in plain C++, measured on this machine, planned, and trained over a
// pipeline of two ranks. A single rank then trains to the same losses.

#include <graphpipe/graphpipe.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <stdexcept>

using namespace graphpipe;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// x: (samples, channels), slope: (channels)
CustomOp swish() {
  CustomOp op;
  op.name = "swish";
  op.outputs = [](const CustomTypes& types) {
    const bool fits = types.inputs.size() == 1 && types.params.size() == 1 &&
                      types.inputs[0].dtype == DType::kFloat32 &&
                      types.inputs[0].shape == types.params[0].shape;
    if (!fits) throw std::invalid_argument("expected float32 x (channels) and slope (channels)");
    return std::vector<TensorType>{types.inputs[0]};
  };
  op.flops_per_sample = [](const CustomTypes& types) {
    return 6.0 * static_cast<double>(element_count(types.inputs[0].shape));
  };
  op.forward = [](const CustomForward& run) {
    const auto x = run.inputs[0].values<float>();
    const auto slope = run.params[0].values<float>();
    const auto y = run.outputs[0].values<float>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = static_cast<float>(x[i] * sigmoid(double{slope[i % slope.size()]} * x[i]));
    }
  };
  op.backward = [](const CustomBackward& run) {
    const auto x = run.inputs[0].values<float>();
    const auto slope = run.params[0].values<float>();
    const auto dy = run.output_gradients[0].values<float>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t channel = i % slope.size();
      const double s = sigmoid(double{slope[channel]} * x[i]);
      const double ds = s * (1 - s);
      if (run.input_gradients[0]) {
        run.input_gradients[0].values<float>()[i] +=
            static_cast<float>(dy[i] * (s + x[i] * ds * slope[channel]));
      }
      if (run.param_gradients[0]) {
        run.param_gradients[0].values<float>()[channel] +=
            static_cast<float>(dy[i] * x[i] * ds * x[i]);
      }
    }
  };
  return op;
}

Graph model() {
  GraphBuilder g("swish-net");
  TensorId x = g.input("x", {32});
  for (const std::string layer : {"a", "b", "c"}) {
    const TensorId h = g.linear(layer, x, 64);
    const ParamId slope = g.param(layer + ".slope", {64}, {InitKind::kOnes, 0});
    x = g.custom(layer + ".swish", "swish", {h}, {slope})[0];
  }
  g.loss(g.mse_loss("loss", g.linear("head", x, 1), g.input("y", {1})));
  return std::move(g).build();
}

struct Trained {
  int stages = 0;
  std::vector<double> losses;
  double slope = 0;  // the first of the first layer
};

Trained plan_and_train(const Graph& graph, int ranks, const CostModel& costs) {
  const Cluster cluster = preset_cluster("local:" + std::to_string(ranks));
  PlanRequest request;
  request.mini_batch = 64;
  request.options.data_parallel = false;
  request.options.all_devices = true;
  request.options.micro_batches = {16};
  const PlanAnswer answer = make_plan(graph, cluster, costs, request);
  if (answer.status != PlanStatus::kOk) throw RunError("no plan: " + answer.reason);
  LocalTraining training;
  training.iterations = 30;
  training.learning_rate = 0.05;
  const auto data = synthetic_dataset(graph, 640, 1);
  const LocalTrainingResult result =
      train_locally(answer.plan, graph, cluster, costs, *data, training);
  const std::string& slopes = *result.weights.at("a.slope").values;
  return {static_cast<int>(answer.plan.stages.size()), result.losses,
          *reinterpret_cast<const float*>(slopes.data())};
}

}  // namespace

int main() {
  try {
    register_custom_op(swish());
    const Graph graph = model();
    const Profile profile = profile_locally(graph, {16, 64}, 2, 3);
    for (const auto& [signature, entry] : profile.entries) {
      if (signature.find("swish") == std::string::npos) continue;
      std::cout << signature << ": forward " << entry.points[0].forward_s * 1e6 << " us, backward "
                << entry.points[0].backward_s * 1e6 << " us\n";
    }
    const ProfiledCosts costs(profile, "this machine");
    const Trained pipelined = plan_and_train(graph, 2, costs);
    const Trained single = plan_and_train(graph, 1, costs);
    double difference = std::abs(pipelined.slope - single.slope);
    for (std::size_t i = 0; i < single.losses.size(); ++i) {
      difference = std::max(difference, std::abs(pipelined.losses[i] - single.losses[i]));
    }
    std::cout << pipelined.stages << " stages: loss " << pipelined.losses.front() << " to "
              << pipelined.losses.back() << ", slope " << pipelined.slope << "\n"
              << single.stages << " stage: loss " << single.losses.front() << " to "
              << single.losses.back() << ", slope " << single.slope << "\n";
    const bool learns = single.losses.back() < single.losses.front() && single.slope != 1;
    if (!learns || !(difference < 1e-5)) {
      std::cerr << "they differ by " << difference << "\n";
      return EXIT_FAILURE;
    }
    std::cout << "the same, to 1e-5\n";
    return EXIT_SUCCESS;
  } catch (const std::runtime_error& error) {  // InputError, RunError
    std::cerr << "error: " << error.what() << "\n";
    return EXIT_FAILURE;
  }
}

#include "runtime/local_training.h"

#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <variant>

#include "base/error.h"
#include "job/job.h"
#include "runtime/counting_allocator.h"
#include "runtime/parameters.h"
#include "runtime/profiler.h"
#include "runtime/rank_trainer.h"
#include "runtime/thread_ranks.h"
#include "runtime/train_loop.h"
#include "runtime/transport/transport.h"
#include "schedule/verify.h"

namespace graphpipe {
namespace {

constexpr double kProfileTimeoutS = 600;

// OpenBLAS has threads of its own, which would have ranks wait for each other's cores. Other
// libraries follow OMP_NUM_THREADS.
class OneBlasThread {
 public:
  OneBlasThread() {
    using Get = int (*)();
    using Set = void (*)(int);
    const auto get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
    set_ = reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
    if (get == nullptr || set_ == nullptr) return;
    before_ = get();
    set_(1);
  }
  ~OneBlasThread() {
    if (before_ > 0) set_(before_);
  }
  OneBlasThread(const OneBlasThread&) = delete;
  OneBlasThread& operator=(const OneBlasThread&) = delete;

 private:
  void (*set_)(int) = nullptr;
  int before_ = 0;
};

void check_runnable(const Plan& plan, const Graph& graph, const Cluster& cluster,
                    const CostModel& costs) {
  validate(plan, graph, cluster, "the plan");
  const Verification verification = verify_plan(plan, graph, cluster, costs);
  if (!verification.ok()) {
    const Fault& fault = verification.faults.front();
    throw InputError("the plan", fmt::format("{}: {}: {}", fault.rule, fault.where, fault.message));
  }
}

TrainOptions train_options(const Plan& plan, const LocalTraining& training) {
  TrainOptions options;
  options.iterations = training.iterations;
  options.epochs = training.epochs;
  options.patience = training.patience;
  options.eval_every = training.eval_every;
  options.optimizer = plan.optimizer;
  options.learning_rate = training.learning_rate;
  options.momentum = training.momentum;
  options.weight_decay = training.weight_decay;
  options.clip = training.clip;
  options.seed = training.seed;
  options.timeout_s = training.timeout_s;
  options.transport = TransportKind::kAuto;
  return options;
}

}  // namespace

Profile profile_locally(const Graph& graph, const std::vector<std::int64_t>& samples, int ranks,
                        int repeats) {
  validate(graph, graph.name);
  if (ranks < 1) throw InputError("ranks", fmt::format("{} is not at least 1", ranks));
  if (samples.empty()) throw InputError("samples", "expected at least one sample count");
  ProfileOptions options;
  options.model = graph.name;
  options.samples = samples;
  options.repeats = repeats;
  std::ranges::sort(options.samples);
  options.samples.erase(std::ranges::unique(options.samples).begin(), options.samples.end());
  if (options.samples.front() < 1) throw InputError("samples", "expected positive sample counts");
  install_counting_allocator();
  const OneBlasThread one_thread;
  auto transports = connect_threads(ranks, kProfileTimeoutS);
  Profile profile;
  run_thread_ranks(transports, [&](Transport& transport) {
    Profile own = measure_profile(graph, options, transport, {});
    if (transport.rank() == 0) profile = std::move(own);
  });
  return profile;
}

LocalTrainingResult train_locally(const Plan& plan, const Graph& graph, const Cluster& cluster,
                                  const CostModel& costs, const Dataset& dataset,
                                  const LocalTraining& training) {
  check_runnable(plan, graph, cluster, costs);
  split_dataset(dataset, training.seed);  // throws what is wrong with it before any rank starts
  const TrainOptions options = train_options(plan, training);
  LocalTrainingResult result;
  const auto on_line = [&](const std::string& text) {
    const TrainLine line = parse_train_line(text);
    if (const auto* iteration = std::get_if<IterationLine>(&line)) {
      result.losses.push_back(iteration->loss);
      if (training.on_iteration) training.on_iteration(*iteration);
    } else if (const auto* evaluation = std::get_if<EvaluationLine>(&line)) {
      if (training.on_evaluation) training.on_evaluation(*evaluation);
    } else if (const auto* done = std::get_if<DoneLine>(&line)) {
      result.done = *done;
    }
  };
  install_counting_allocator();
  const OneBlasThread one_thread;
  auto transports = connect_threads(devices_used(plan), options.timeout_s);
  std::mutex weights_mutex;
  run_thread_ranks(transports, [&](Transport& transport) {
    RankTrainerOptions trainer_options;
    trainer_options.train = options;
    RankTrainer trainer(plan, graph, cluster, dataset, transport, std::move(trainer_options));
    run_training({.options = options,
                  .plan = plan,
                  .graph = graph,
                  .cluster = cluster,
                  .costs = costs,
                  .dataset = dataset,
                  .transport = transport,
                  .trainer = trainer},
                 on_line);
    Weights held = held_weights(graph, trainer.parameters());
    const std::lock_guard lock(weights_mutex);
    result.weights.merge(held);
  });
  return result;
}

}  // namespace graphpipe

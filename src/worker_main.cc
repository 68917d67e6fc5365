// graphpipe-worker: one rank of a job that `graphpipe` starts.
//
//   graphpipe-worker --job FOLDER --rank R
//
// Ends with 0; or writes fault.R to the folder and ends with 2 (bad input), 3 (the run
// failed) or 70 (a defect). A fault is written while the connections are still open: the
// peers notice an end when they close, and by then the account of the cause is there.

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cost/analytic.h"
#include "cost/profile_json.h"
#include "data/dataset.h"
#include "graph/weights.h"
#include "job/fault.h"
#include "job/heartbeat.h"
#include "job/job.h"
#include "job/profile_lines.h"
#include "job/status.h"
#include "job/test_fault.h"
#include "runtime/counting_allocator.h"
#include "runtime/emulation/emulate_loop.h"
#include "runtime/gather_weights.h"
#include "runtime/parameters.h"
#include "runtime/profiler.h"
#include "runtime/rank_trainer.h"
#include "runtime/self_check.h"
#include "runtime/thread_ranks.h"
#include "runtime/train_loop.h"
#include "runtime/transport/transport.h"

namespace graphpipe {
namespace {

constexpr int kBadInput = 2;
constexpr int kDefect = 70;
constexpr const char* kOutOfMemory = "out of memory";
// Ranks of a profile finish apart; a rank that is gone ends the job through the launcher.
constexpr double kProfileTimeoutS = 600;

// What a terminate handler needs, so it is not local to main.
struct Worker {
  std::string folder;
  int rank = 0;
  bool is_one_rank = true;
  std::unique_ptr<StatusFile> status;
  std::unique_ptr<Heartbeat> heartbeat;  // of a training run
  std::optional<TestFault> test_fault;
  Plan plan;
  std::atomic<bool> faulted{false};
};

Worker& worker() {
  static Worker instance;
  return instance;
}

// The first lines of an error of the library, without its stack.
std::string short_message(const std::exception& error) {
  const std::string_view text = error.what();
  return std::string(text.substr(0, text.find("\nException raised from")));
}

WorkerFault make_fault(const std::exception& error) {
  WorkerFault fault;
  fault.rank = worker().rank;
  fault.host = host_name();
  fault.message = short_message(error);
  fault.exit_code = kRunFailed;
  if (const auto* action = dynamic_cast<const ActionError*>(&error)) {
    // Where the process is several ranks, only the error knows which.
    fault.message = worker().is_one_rank ? action->cause() : action->what();
    fault.kind = action->peer_lost() ? FaultKind::kPeerLost : FaultKind::kError;
    if (action->cause() == std::bad_alloc().what()) fault.message = kOutOfMemory;
  } else if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    fault.message = kOutOfMemory;
  } else if (dynamic_cast<const PeerError*>(&error) != nullptr) {
    fault.kind = FaultKind::kPeerLost;
  } else if (dynamic_cast<const InputError*>(&error) != nullptr) {
    fault.exit_code = kBadInput;
  } else if (dynamic_cast<const InternalError*>(&error) != nullptr) {
    fault.message = "internal error, please report: " + fault.message;
    fault.exit_code = kDefect;
  }
  return fault;
}

void add_place(WorkerFault& fault) {
  if (!worker().status) return;
  const RankStatus& status = worker().status->status();
  fault.at = to_text(status, worker().plan);
  fault.iteration = status.iteration;
  if (status.position < 0) return;
  fault.stage = status.action.stage.value;
  fault.micro_batch = status.action.micro_batch;
  fault.action = to_text(status.action, worker().plan);
}

// Writes fault.R and ends the process at once: no destructor waits for a peer.
[[noreturn]] void end_with(WorkerFault fault) {
  if (worker().faulted.exchange(true)) {
    sleep(5);  // another thread is about to end the process
    _exit(kRunFailed);
  }
  add_place(fault);
  fault.time_s = monotonic_s();
  std::fflush(stdout);
  fmt::print(stderr, "{}\n", to_text(fault));
  try {
    write_fault(worker().folder, fault);
  } catch (const InputError& error) {
    fmt::print(stderr, "rank {}: {}\n", fault.rank, error.what());
  }
  _exit(fault.exit_code);
}

// An exception that left a thread of the library.
[[noreturn]] void terminate_worker() {
  WorkerFault fault;
  fault.rank = worker().rank;
  fault.host = host_name();
  fault.message = "the process was terminated";
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const std::exception& error) {
    fault = make_fault(error);
    if (fault.message.find("onnection") != std::string::npos) fault.kind = FaultKind::kPeerLost;
  }
  end_with(fault);
}

void follow_action(StatusFile& file, const Action& action, std::int64_t iteration,
                   std::int64_t position, const char* phase) {
  RankStatus& status = file.status();
  if (std::string_view(status.phase) != phase) file.set_phase(phase);
  status.iteration = iteration;
  status.position = position;
  status.action = action;
}

// Tensors and messages of the same sizes come and go with every micro-batch. Left alone, the
// allocator gives large ones back to the kernel and pays for their pages again each time.
void keep_freed_memory() {
  constexpr int kLargestKept = 32 << 20;  // more is not accepted
  constexpr int kMostUnused = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kLargestKept);
  mallopt(M_TRIM_THRESHOLD, kMostUnused);
}

// Where ranks share cores, one that a message wakes need not displace the one that sent it:
// fewer switches, and more of the cache.
void run_in_turns() {
  const sched_param ordinary = {};
  sched_setscheduler(0, SCHED_BATCH, &ordinary);
}

void strike_at(const char* place) {
  if (worker().test_fault) worker().test_fault->strike_at(place);
}

// A second checkpoint has one before it, which is to stay.
void note_save_step(const std::string& step) {
  if (!worker().test_fault || !step.starts_with("write")) return;
  static const std::string first = step.substr(0, step.rfind('/'));
  if (!step.starts_with(first)) strike_at("checkpoint");
}

// Signs of life, where the launcher looks for them.
void start_heartbeat(const TrainOptions& train) {
  if (train.heartbeat_s <= 0) return;
  worker().heartbeat =
      std::make_unique<Heartbeat>(*worker().status, heartbeat_interval_s(train.heartbeat_s));
}

std::unique_ptr<CostModel> read_costs(const std::string& folder) {
  const std::string path = folder + "/profile.json";
  if (access(path.c_str(), F_OK) != 0) return std::make_unique<AnalyticCosts>();
  return std::make_unique<ProfiledCosts>(parse_profile(read_file(path), path), path);
}

void print_line(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

// Everything that a rank holds: outlives the handling of an error.
struct Run {
  Job job;
  JobInputs inputs;
  std::unique_ptr<CostModel> costs;
  std::unique_ptr<Dataset> dataset;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<RankTrainer> trainer;
};

void check_rank(int count) {
  if (worker().rank < count) return;
  throw InputError("--rank", fmt::format("{} is not a rank of this job, which has {} (from 0)",
                                         worker().rank, count));
}

// Into the folder that `graphpipe` reads them from: that of all ranks, or rank 0's.
void save_weights(Run& run) {
  const std::string& folder = run.job.folder;
  const std::string own = to_safetensors(held_weights(run.inputs.graph, run.trainer->parameters()));
  const auto save = [&](int rank, const std::string& weights) {
    write_file(saved_weights_path(folder, rank), weights);
  };
  save(worker().rank, own);
  if (run.job.rendezvous.way != Rendezvous::Way::kFolder) gather_weights(*run.transport, own, save);
}

void train(Run& run) {
  const Job& job = run.job;
  StatusFile& status = *worker().status;
  run.inputs = read_job_inputs(job.folder);
  const auto& [plan, graph, cluster] = run.inputs;
  worker().plan = plan;
  check_rank(worker_count(job, plan));
  run.costs = read_costs(job.folder);
  run.dataset = load_dataset(job.train.data, graph, job.train.seed);
  status.set_phase("connect");
  strike_at("connect");
  if (worker().test_fault && worker().test_fault->publishes_closed_port(job.folder)) pause();
  run.transport =
      connect_processes(job.rendezvous, job.folder, worker().rank, worker_count(job, plan),
                        job.train.timeout_s, job.train.transport);
  RankTrainerOptions options;
  options.train = job.train;
  options.trace = !job.train.trace_path.empty();
  options.on_action = [&status](const Action& action, std::int64_t iteration, std::int64_t position,
                                const char* phase) {
    follow_action(status, action, iteration, position, phase);
    if (worker().test_fault) worker().test_fault->strike_in(action, iteration, phase);
  };
  run.trainer = std::make_unique<RankTrainer>(plan, graph, cluster, *run.dataset, *run.transport,
                                              std::move(options));
  run_training({.options = job.train,
                .plan = plan,
                .graph = graph,
                .cluster = cluster,
                .costs = *run.costs,
                .dataset = *run.dataset,
                .transport = *run.transport,
                .trainer = *run.trainer,
                .checkpoint_files = DurableFiles(note_save_step)},
               print_line);
  if (job.train.save_weights) save_weights(run);
}

void print_emulated(Run& run, Transport& transport, const std::string& ranks_as) {
  run_emulation({.options = run.job.train,
                 .plan = run.inputs.plan,
                 .graph = run.inputs.graph,
                 .cluster = run.inputs.cluster,
                 .costs = *run.costs,
                 .transport = transport,
                 .folder = run.job.folder,
                 .ranks_as = ranks_as,
                 .on_action = {}},
                print_line);
}

void emulate(Run& run) {
  const Job& job = run.job;
  run.inputs = read_job_inputs(job.folder);
  const Plan& plan = run.inputs.plan;
  check_rank(worker_count(job, plan));
  run.costs = read_costs(job.folder);
  StatusFile& status = *worker().status;
  status.set_phase("connect");
  if (!ranks_are_threads(job)) {
    run.transport = connect_processes(job.rendezvous, job.folder, worker().rank, devices_used(plan),
                                      job.train.timeout_s, job.train.transport);
    status.set_phase("emulate");
    return print_emulated(run, *run.transport, "processes over Gloo");
  }
  worker().is_one_rank = false;
  auto transports = connect_threads(devices_used(plan), job.train.timeout_s);
  status.set_phase("emulate");
  run_thread_ranks(transports,
                   [&](Transport& transport) { print_emulated(run, transport, "threads"); });
}

void profile(Run& run) {
  const Job& job = run.job;
  StatusFile& status = *worker().status;
  check_rank(job.profile_load);
  run.inputs.graph = read_job_graph(job.folder);
  status.set_phase("connect");
  run.transport = connect_processes(job.rendezvous, job.folder, worker().rank, job.profile_load,
                                    kProfileTimeoutS, TransportKind::kAuto);
  status.set_phase("profile");
  const ProfileOptions options{
      .model = job.model,
      .samples = job.profile_samples,
      .repeats = job.profile_repeats,
      .cache = job.profile_cache,
      .fresh = job.profile_fresh,
      .on_known = [](std::int64_t known, std::int64_t all) {
        if (known == 0) return;
        print_line(fmt::format(
            "{} of {} measurements were made before on this machine; --fresh makes them anew",
            known, all));
      }};
  const Profile result = measure_profile(run.inputs.graph, options, *run.transport,
                                         [&](const std::string& what, double done) {
                                           status.set_note(what);
                                           if (worker().rank == 0)
                                             print_line(to_json_line(MeasuringLine{what, done}));
                                         });
  if (worker().rank == 0) write_file(profile_result_path(job.folder), to_json(result));
  status.set_note("");
  run.transport->barrier();
}

void run_worker(Run& run) {
  worker().status = StatusFile::create(status_path(worker().folder, worker().rank));
  worker().status->set_phase("start");
  worker().test_fault = TestFault::of_rank(worker().rank, [] { worker().heartbeat.reset(); });
  run.job = read_job(worker().folder);
  if (run.job.kind == "train") start_heartbeat(run.job.train);
  strike_at("start");
  keep_freed_memory();
  if (run.job.kind != "emulate") run_in_turns();  // its ranks sleep, and are to wake in time
  at::set_num_threads(1);
  install_counting_allocator();
  if (run.job.kind == "profile") {
    profile(run);
  } else if (run.job.kind == "emulate") {
    emulate(run);
  } else {
    train(run);
  }
}

bool parse_arguments(int argc, char** argv) {
  if (argc != 5 || std::string_view(argv[1]) != "--job" || std::string_view(argv[3]) != "--rank") {
    return false;
  }
  worker().folder = argv[2];
  worker().rank = static_cast<int>(parse_integer(argv[4], "--rank"));
  return worker().rank >= 0;
}

int worker_main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    fmt::print("graphpipe-worker {}, {}\n", GP_VERSION, library_name());
    return 0;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--doctor") {
    fmt::print("{}", self_check_text());
    return 0;
  }
  Run run;
  try {
    if (!parse_arguments(argc, argv)) {
      fmt::print(stderr,
                 "usage: graphpipe-worker --job FOLDER --rank R\n"
                 "One rank of a run; `graphpipe train` and `graphpipe profile` start it.\n");
      return kBadInput;
    }
    std::set_terminate(terminate_worker);
    run_worker(run);
  } catch (const std::exception& error) {
    end_with(make_fault(error));
  }
  run.trainer.reset();
  run.transport.reset();
  worker().heartbeat.reset();
  worker().status->set_phase("done");
  return 0;
}

}  // namespace
}  // namespace graphpipe

int main(int argc, char** argv) {
  const int code = graphpipe::worker_main(argc, argv);
  std::fflush(nullptr);
  _exit(code);  // the library's own clearing up takes a second on a busy machine
}

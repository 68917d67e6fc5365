#include "runtime/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.h"

namespace graphpipe {

CheckpointWriter::CheckpointWriter(const CheckpointRun& run)
    : run_(run),
      folder_(run.options.checkpoint, run.rank, devices_used(run.plan), run.files),
      description_(describe_run(run.plan, run.graph, run.options, run.dataset.samples(),
                                run.dataset.name())),
      held_(run.graph.params.size(), false),
      first_(held_),
      replica_(held_) {
  const std::vector<std::vector<int>> holders = parameter_holders(run.plan, run.graph);
  const std::vector<bool> running = running_statistics(run.graph);
  for (std::size_t i = 0; i < holders.size(); ++i) {
    held_[i] = std::ranges::find(holders[i], run.rank) != holders[i].end();
    first_[i] = held_[i] && holders[i].front() == run.rank;
    replica_[i] = held_[i] && !first_[i] && running[i];
  }
  if (run.rank == 0) folder_.claim();
  thread_ = std::thread([this] { write_all(); });
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::optional<TrainProgress> CheckpointWriter::resume() {
  const std::string& path = run_.options.checkpoint.resume;
  if (path.empty()) return std::nullopt;
  const CheckpointManifest made = read_manifest(path);
  check_resumable(made, description_, path);
  const bool same_plan =
      made.plan_hash == description_.plan_hash && made.ranks == description_.ranks;
  run_.trainer.restore(read_state(path, made, run_.graph, held_, same_plan ? run_.rank : -1));
  saved_ = made.progress.iteration;
  return made.progress;
}

bool CheckpointWriter::is_due(std::int64_t iterations, bool is_last) const {
  if (iterations == saved_ || iterations % run_.options.accumulate != 0) return false;
  const std::int64_t every = run_.options.checkpoint.every;
  return is_last || iterations / every > saved_ / every;
}

void CheckpointWriter::save(const TrainProgress& progress, std::int64_t iterations_per_epoch) {
  wait_until_written();
  Task task{description_, {}};
  task.manifest.progress = progress;
  task.manifest.epoch =
      static_cast<double>(progress.iteration) / static_cast<double>(iterations_per_epoch);
  task.manifest.position = progress.iteration % iterations_per_epoch;
  task.state.first = run_.trainer.training_state(first_);
  task.state.replica = run_.trainer.training_state(replica_);
  saved_ = progress.iteration;
  {
    const std::lock_guard lock(mutex_);
    task_ = std::move(task);
  }
  changed_.notify_all();
}

void CheckpointWriter::check() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

void CheckpointWriter::finish() { wait_until_written(); }

void CheckpointWriter::wait_until_written() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !task_ || error_; });
  if (error_) std::rethrow_exception(error_);
}

std::exception_ptr CheckpointWriter::failure(const Task& task, const std::string& cause) {
  return std::make_exception_ptr(RunError(
      fmt::format("the checkpoint of iteration {}: {}", task.manifest.progress.iteration, cause)));
}

void CheckpointWriter::write_all() {
  const auto stopped = [this] {
    const std::lock_guard lock(mutex_);
    return stopped_;
  };
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return task_ || stopped_; });
    if (stopped_) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      folder_.write(task_->manifest, task_->state, stopped);
    } catch (const std::bad_alloc&) {
      error = failure(*task_, "out of memory");
    } catch (const std::exception& failed) {
      error = failure(*task_, failed.what());
    }
    lock.lock();
    error_ = error;
    task_.reset();
    changed_.notify_all();
    if (error_) return;
  }
}

}  // namespace graphpipe

#include "runtime/emulation/emulated_network.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <span>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "runtime/clock.h"
#include "runtime/shared_mutex.h"
#include "runtime/transport/transport.h"
#include "schedule/task_seconds.h"

namespace graphpipe {
namespace {

constexpr double kGraceS = kShortestEmulatedTaskS / 2;
constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

// The parts of the file, one after another.
class EmulatedNetwork::State {
  struct Transfer {
    int come = 0;        // of the lane's ranks
    double ready_s = 0;  // when the last of them came
    double hold_s = 0;
    double start_s = -1;  // negative: not yet
  };

  struct LaneState {
    std::int64_t ready = 0;  // transfers to which all ranks have come
    std::int64_t started = 0;
  };

  struct Shared {
    pthread_mutex_t mutex;
    int contenders = 0;
  };

  struct Waiter {
    pthread_cond_t woken;
    int lane = -1;  // that the rank waits for; -1: for none
  };

 public:
  explicit State(const TransferModel& model) : model_(model) {
    for (const Lane& lane : model.lanes()) {
      first_transfer_.push_back(static_cast<std::size_t>(transfers_));
      transfers_ += lane.transfers;
    }
    for (const int servers : model.servers()) {
      first_server_.push_back(static_cast<std::size_t>(servers_));
      servers_ += servers;
    }
    take<Shared>(1);
    take<Waiter>(model.ranks());
    take<double>(servers_);
    take<LaneState>(lanes());
    take<int>(lanes());
    take<Transfer>(transfers_);
  }
  ~State() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void map(const std::string& path, int flags) {
    const int file = open(path.c_str(), flags | O_RDWR | O_CLOEXEC, 0600);
    const bool sized =
        file >= 0 && ((flags & O_CREAT) == 0 || ftruncate(file, static_cast<off_t>(bytes_)) == 0);
    void* data =
        sized ? mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    const std::string reason = std::strerror(errno);
    if (file >= 0) close(file);
    if (data == MAP_FAILED) throw RunError(fmt::format("{}: cannot be mapped: {}", path, reason));
    data_ = static_cast<std::byte*>(data);
    std::size_t at = 0;
    const auto part = [&]<typename T>(std::span<T>& span, std::int64_t count) {
      span = {reinterpret_cast<T*>(data_ + at), static_cast<std::size_t>(count)};
      at += room(sizeof(T), count);
    };
    std::span<Shared> shared;
    part(shared, 1);
    shared_ = shared.data();
    part(waiters_, model_.ranks());
    part(free_at_, servers_);
    part(lane_states_, lanes());
    part(contenders_, lanes());
    part(all_transfers_, transfers_);
  }

  void initialise() {
    make_shared_mutex(shared_->mutex);
    pthread_condattr_t condition;
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);
    for (Waiter& waiter : waiters_) {
      pthread_cond_init(&waiter.woken, &condition);
      waiter.lane = -1;
    }
    pthread_condattr_destroy(&condition);
    reset();
  }

  void reset() {
    shared_->contenders = 0;
    std::ranges::fill(free_at_, 0.0);
    std::ranges::fill(lane_states_, LaneState{});
    std::ranges::fill(all_transfers_, Transfer{});
  }

  void lock() const {
    switch (pthread_mutex_lock(&shared_->mutex)) {
      case 0:
        return;
      case EOWNERDEAD:
        unlock();  // for others to learn of it
        [[fallthrough]];
      case ENOTRECOVERABLE:
        throw PeerError("a rank has ended within a transfer");
      default:
        GP_CHECK(false, "the network cannot be locked");
    }
  }
  void unlock() const { pthread_mutex_unlock(&shared_->mutex); }

  Transfer& transfer(int lane, std::int64_t i) const {
    GP_CHECK(i < model_.lanes()[at(lane)].transfers, "transfer {} of lane {}, which has {}", i,
             lane, model_.lanes()[at(lane)].transfers);
    return all_transfers_[first_transfer_[at(lane)] + static_cast<std::size_t>(i)];
  }

  void come(int lane, std::int64_t i, double at_s, double hold_s) {
    Transfer& one = transfer(lane, i);
    one.ready_s = one.come == 0 ? at_s : std::max(one.ready_s, at_s);
    one.hold_s = hold_s;
    if (++one.come < static_cast<int>(model_.lanes()[at(lane)].ranks.size())) return;
    LaneState& state = lane_states_[at(lane)];
    GP_CHECK(state.ready == i, "transfer {} of lane {} comes out of turn", i, lane);
    if (state.ready++ == state.started) contend(lane);
    start_due(wall_s() - kGraceS);
    if (one.start_s < 0) wake(lane);  // so that who waits knows until when
  }

  // Starts what can start by then, in the order of time.
  void start_due(double until_s) {
    while (shared_->contenders > 0) {
      int best = 0;
      for (int c = 1; c < shared_->contenders; ++c) {
        if (turn(contenders_[at(c)]) < turn(contenders_[at(best)])) best = c;
      }
      const int lane = contenders_[at(best)];
      if (earliest_start_s(lane) > until_s) return;
      contenders_[at(best)] = contenders_[at(--shared_->contenders)];
      start(lane);
    }
  }

  // Of the first transfer of the lane that is ready and has not started.
  double earliest_start_s(int lane) const {
    double start_s = transfer(lane, lane_states_[at(lane)].started).ready_s;
    for (const int resource : model_.lanes()[at(lane)].resources) {
      start_s = std::max(start_s, *first_free(resource));
    }
    return start_s;
  }

  bool has_ready(int lane) const {
    return lane_states_[at(lane)].ready > lane_states_[at(lane)].started;
  }

  void wait(RankId rank, int lane, double until_s) const {
    Waiter& waiter = waiters_[rank.index()];
    waiter.lane = lane;
    const timespec until = timespec_of(until_s);
    const int error = pthread_cond_timedwait(&waiter.woken, &shared_->mutex, &until);
    waiter.lane = -1;
    if (error == EOWNERDEAD) throw PeerError("a rank has ended within a transfer");
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int lanes() const { return static_cast<int>(model_.lanes().size()); }
  static std::size_t room(std::size_t size, std::int64_t count) {
    constexpr std::size_t kLine = 64;
    return (size * static_cast<std::size_t>(count) + kLine - 1) / kLine * kLine;
  }
  template <typename T>
  void take(std::int64_t count) {
    bytes_ += room(sizeof(T), count);
  }

  void contend(int lane) { contenders_[at(shared_->contenders++)] = lane; }

  std::tuple<double, double, int> turn(int lane) const {
    return {earliest_start_s(lane), transfer(lane, lane_states_[at(lane)].started).ready_s, lane};
  }

  double* first_free(int resource) const {
    double* begin = free_at_.data() + first_server_[at(resource)];
    return std::min_element(begin, begin + model_.servers()[at(resource)]);
  }

  void start(int lane) {
    LaneState& state = lane_states_[at(lane)];
    Transfer& one = transfer(lane, state.started);
    const double start_s = earliest_start_s(lane);
    for (const int resource : model_.lanes()[at(lane)].resources) {
      *first_free(resource) = start_s + one.hold_s;
    }
    one.start_s = start_s;
    if (++state.started < state.ready) contend(lane);
    wake(lane);
  }

  void wake(int lane) const {
    for (const int rank : model_.lanes()[at(lane)].ranks) {
      if (waiters_[at(rank)].lane == lane) pthread_cond_signal(&waiters_[at(rank)].woken);
    }
  }

  const TransferModel& model_;
  std::vector<std::size_t> first_transfer_;  // [lane]
  std::vector<std::size_t> first_server_;    // [resource]
  std::int64_t transfers_ = 0;
  std::int64_t servers_ = 0;
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
  Shared* shared_ = nullptr;
  std::span<Waiter> waiters_;  // [rank]
  std::span<double> free_at_;  // [server], those of a resource together
  std::span<LaneState> lane_states_;
  std::span<int> contenders_;  // lanes with a transfer that is ready and has not started
  std::span<Transfer> all_transfers_;
};

namespace {

template <typename State>
class Locked {
 public:
  explicit Locked(const State& state) : state_(state) { state_.lock(); }
  ~Locked() { state_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  const State& state_;
};

}  // namespace

void EmulatedNetwork::create(const std::string& path, const TransferModel& model) {
  State state(model);
  state.map(path, O_CREAT | O_TRUNC);
  state.initialise();
}

EmulatedNetwork::EmulatedNetwork(const std::string& path, const TransferModel& model, RankId rank,
                                 double timeout_s)
    : rank_(rank), timeout_s_(timeout_s), state_(std::make_unique<State>(model)) {
  state_->map(path, 0);
}

EmulatedNetwork::~EmulatedNetwork() = default;

void EmulatedNetwork::reset() {
  const Locked lock(*state_);
  state_->reset();
}

void EmulatedNetwork::come(int lane, std::int64_t transfer, double at_s, double hold_s) {
  const Locked lock(*state_);
  state_->come(lane, transfer, at_s, hold_s);
}

double EmulatedNetwork::wait_for_start(int lane, std::int64_t transfer) {
  const Locked lock(*state_);
  const double give_up_s = wall_s() + timeout_s_;
  while (true) {
    const double now_s = wall_s();
    state_->start_due(now_s - kGraceS);
    if (const double start_s = state_->transfer(lane, transfer).start_s; start_s >= 0) {
      return start_s;
    }
    if (now_s > give_up_s) {
      throw PeerError(fmt::format("a transfer did not start within {} s", timeout_s_));
    }
    const double soon_s =
        state_->has_ready(lane) ? state_->earliest_start_s(lane) + kGraceS : kNever;
    state_->wait(rank_, lane, std::min(soon_s, give_up_s));
  }
}

}  // namespace graphpipe

#include "runtime/transport/gloo_transport.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>

#include <chrono>
#include <exception>
#include <string_view>

#include "runtime/clock.h"

namespace graphpipe {
namespace {

[[noreturn]] void throw_lost(int peer, const std::exception& error) {
  throw PeerError(fmt::format("rank {}: {}", peer, short_cause(error)));
}

// A send or receive of Gloo. The buffer outlives the work, which Gloo's own thread does.
struct GlooWork {
  at::Tensor buffer;
  c10::intrusive_ptr<c10d::Work> work;
  int peer = 0;

  void wait() const {
    try {
      work->wait();
    } catch (const std::exception& error) {
      throw_lost(peer, error);
    }
  }
};

class GlooReceive final : public PendingReceive {
 public:
  explicit GlooReceive(GlooWork work) : work_(std::move(work)) {}
  at::Tensor wait() override {
    work_.wait();
    return std::move(work_.buffer);
  }

 private:
  GlooWork work_;
};

class GlooSend final : public PendingSend {
 public:
  explicit GlooSend(GlooWork work) : work_(std::move(work)) {}
  void wait() override { work_.wait(); }

 private:
  GlooWork work_;
};

// `start` is the group's send or receive.
template <typename Start>
GlooWork start_work(at::Tensor buffer, int peer, Start start) {
  try {
    std::vector<at::Tensor> tensors = {buffer};
    return {std::move(buffer), start(tensors), peer};
  } catch (const std::exception& error) {
    throw_lost(peer, error);
  }
}

}  // namespace

std::string short_cause(const std::exception& error) {
  std::string_view text = error.what();
  text = text.substr(0, text.find('\n'));
  if (text.starts_with('[')) {
    const auto end = text.find("] ");
    if (end != std::string_view::npos) text.remove_prefix(end + 2);
  }
  return std::string(text);
}

void Transport::barrier() { all_reduce_sum(at::zeros({1})); }

GlooTransport::GlooTransport(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                             double timeout_s, const std::string& address,
                             std::unique_ptr<Gate> gate)
    : gate_(std::move(gate)), store_(std::move(store)), rank_(rank), size_(size) {
  const std::chrono::milliseconds timeout(static_cast<std::int64_t>(timeout_s * 1e3));
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->threads = 1;
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
  group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store_, rank, size, options);
}

void GlooTransport::close_gate() {
  if (gate_) gate_->close();
}

std::unique_ptr<PendingReceive> GlooTransport::post_receive(std::int64_t bytes, int peer, int tag) {
  return std::make_unique<GlooReceive>(start_work(
      at::empty({bytes}, at::kByte), peer,
      [&](std::vector<at::Tensor>& tensors) { return group_->recv(tensors, peer, tag); }));
}

std::unique_ptr<PendingSend> GlooTransport::start_send(std::int64_t bytes, int peer, int tag,
                                                       const Pack& pack) {
  at::Tensor buffer = at::empty({bytes}, at::kByte);
  pack(reinterpret_cast<std::byte*>(buffer.data_ptr<std::uint8_t>()));
  return std::make_unique<GlooSend>(start_work(
      std::move(buffer), peer,
      [&](std::vector<at::Tensor>& tensors) { return group_->send(tensors, peer, tag); }));
}

void GlooTransport::all_reduce_sum(at::Tensor values) {
  try {
    std::vector<at::Tensor> tensors = {std::move(values)};
    group_->allreduce(tensors)->wait();
  } catch (const std::exception& error) {
    throw PeerError(fmt::format("a sum over all ranks: {}", short_cause(error)));
  }
}

}  // namespace graphpipe

// Gloo's loop (gloo/transport/tcp) waits for its sockets level-triggered and tries the lock
// of a connection before it reads. While another thread holds the lock, which it does as
// long as it writes, the loop comes back at once and tries again, millions of times a second;
// where ranks share cores, the writer waits for the core that the loop spins on. So a wait
// that follows an event too soon for anything to have been read gives the core away first.
// This definition takes the place of the C library's in programs that link the runtime; see
// docs/runtime.md for what it saves.
extern "C" int epoll_wait(int epoll, epoll_event* events, int count, int timeout_ms) {
  constexpr double kTooSoonS = 1e-6;  // less than reading a socket takes
  thread_local double returned_s = 0;
  if (graphpipe::wall_s() - returned_s < kTooSoonS) sched_yield();
  const int ready = epoll_pwait(epoll, events, count, timeout_ms, nullptr);
  returned_s = graphpipe::wall_s();
  return ready;
}

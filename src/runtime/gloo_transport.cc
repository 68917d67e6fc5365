#include <ATen/core/ivalue.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/file.h"
#include "base/text.h"
#include "runtime/clock.h"
#include "runtime/transport.h"

namespace graphpipe {
namespace {

using Milliseconds = std::chrono::milliseconds;

Milliseconds milliseconds(double seconds) {
  return Milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

// The first line of a library's error, without the source place that Gloo puts before it
// ("[../gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:40543").
std::string short_cause(const std::exception& error) {
  std::string_view text = error.what();
  text = text.substr(0, text.find('\n'));
  if (text.starts_with('[')) {
    const auto end = text.find("] ");
    if (end != std::string_view::npos) text.remove_prefix(end + 2);
  }
  return std::string(text);
}

class GlooMessage final : public PendingMessage {
 public:
  GlooMessage(c10::intrusive_ptr<c10d::Work> work, at::Tensor buffer, int peer)
      : buffer_(std::move(buffer)), work_(std::move(work)), peer_(peer) {}

  void wait() override {
    try {
      work_->wait();
    } catch (const std::exception& error) {
      throw PeerError(fmt::format("rank {}: {}", peer_, short_cause(error)));
    }
  }

 private:
  at::Tensor buffer_;  // outlives the work, which Gloo's own thread writes for
  c10::intrusive_ptr<c10d::Work> work_;
  int peer_;
};

class GlooTransport final : public Transport {
 public:
  GlooTransport(c10::intrusive_ptr<c10d::Store> store, int rank, int size, double timeout_s)
      : store_(std::move(store)), rank_(rank), size_(size) {
    auto options = c10d::ProcessGroupGloo::Options::create(milliseconds(timeout_s));
    options->threads = 1;
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store_, rank, size, options);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<PendingMessage> post_receive(at::Tensor buffer, int peer, int tag) override {
    return exchange(std::move(buffer), peer, [&](std::vector<at::Tensor>& tensors) {
      return group_->recv(tensors, peer, tag);
    });
  }

  std::unique_ptr<PendingMessage> start_send(at::Tensor buffer, int peer, int tag) override {
    return exchange(std::move(buffer), peer, [&](std::vector<at::Tensor>& tensors) {
      return group_->send(tensors, peer, tag);
    });
  }

  void all_reduce_sum(at::Tensor values) override {
    try {
      std::vector<at::Tensor> tensors = {std::move(values)};
      group_->allreduce(tensors)->wait();
    } catch (const std::exception& error) {
      throw PeerError(fmt::format("a sum over all ranks: {}", short_cause(error)));
    }
  }

  void barrier() override { all_reduce_sum(at::zeros({1})); }

 private:
  template <typename Start>
  std::unique_ptr<PendingMessage> exchange(at::Tensor buffer, int peer, Start start) {
    try {
      std::vector<at::Tensor> tensors = {buffer};
      return std::make_unique<GlooMessage>(start(tensors), std::move(buffer), peer);
    } catch (const std::exception& error) {
      throw PeerError(fmt::format("rank {}: {}", peer, short_cause(error)));
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;  // rank 0's serves the others
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  int rank_;
  int size_;
};

// Debian builds the newer library without libuv, which its stores want by default.
template <typename Options>
void avoid_libuv(Options& options) {
  if constexpr (requires { options.useLibUV; }) options.useLibUV = false;
}

// The port that rank 0 publishes, once it listens there.
std::uint16_t published_port(const std::string& path, double timeout_s) {
  const auto deadline = std::chrono::steady_clock::now() + milliseconds(timeout_s);
  while (!std::filesystem::exists(path)) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw PeerError(fmt::format("rank 0: published no port in {} within {} s", path, timeout_s));
    }
    std::this_thread::sleep_for(Milliseconds(5));
  }
  return static_cast<std::uint16_t>(parse_integer(read_file(path), path));
}

c10::intrusive_ptr<c10d::Store> open_store(const std::string& job_folder, int rank,
                                           double timeout_s) {
  const std::string path = job_folder + "/port";
  c10d::TCPStoreOptions options;
  options.isServer = rank == 0;
  options.port = rank == 0 ? std::uint16_t{0} : published_port(path, timeout_s);
  options.waitWorkers = false;
  options.timeout = milliseconds(timeout_s);
  avoid_libuv(options);
  auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  if (rank == 0) write_file(path, std::to_string(store->getPort()));
  return store;
}

}  // namespace

std::unique_ptr<Transport> connect_gloo(const std::string& job_folder, int rank, int size,
                                        double timeout_s) {
  try {
    return std::make_unique<GlooTransport>(open_store(job_folder, rank, timeout_s), rank, size,
                                           timeout_s);
  } catch (const RunError&) {
    throw;
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& error) {
    throw PeerError(fmt::format("rank {} could not connect to all of the {} ranks: {}", rank, size,
                                short_cause(error)));
  }
}

std::vector<std::unique_ptr<Transport>> connect_threads(int size, double timeout_s) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(milliseconds(timeout_s));
  std::vector<std::unique_ptr<Transport>> transports(static_cast<std::size_t>(size));
  std::vector<std::exception_ptr> errors(transports.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto i = static_cast<std::size_t>(rank);
      try {
        transports[i] = std::make_unique<GlooTransport>(store, rank, size, timeout_s);
      } catch (const std::exception&) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return transports;
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

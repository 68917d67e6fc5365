// How ranks find one another, as processes through rank 0's store and as threads.

#include <ATen/core/ivalue.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "job/hosts/address.h"
#include "runtime/transport/gate.h"
#include "runtime/transport/gloo_transport.h"
#include "runtime/transport/shared_memory_transport.h"

namespace graphpipe {
namespace {

using Milliseconds = std::chrono::milliseconds;

// The memory of the ranks as one of them reaches it.
struct Pieces {
  std::vector<std::shared_ptr<SharedMemory>> of_ranks;  // null: not reached, or its own
  bool everywhere = true;                               // every rank reaches that of all
};

Milliseconds milliseconds(double seconds) {
  return Milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

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
  return static_cast<std::uint16_t>(parse_port(read_file(path), path));
}

// Text that the ranks of several runs may publish in one store.
std::string agent_key(const Rendezvous& rendezvous) {
  return "graphpipe/" + rendezvous.run + "/store";
}

using StorePointer = c10::intrusive_ptr<c10d::TCPStore>;

StorePointer connect_store(const std::string& host, int port, bool is_server, double timeout_s) {
  c10d::TCPStoreOptions options;
  options.isServer = is_server;
  options.port = static_cast<std::uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = milliseconds(timeout_s);
  avoid_libuv(options);
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

// torchrun's own store. It knows nothing of tokens, so it is spoken to before the gate is up, and
// is told no more than where rank 0 listens.
class AgentStore {
 public:
  AgentStore(const Rendezvous& rendezvous, double timeout_s)
      : key_(agent_key(rendezvous)),
        store_(connect_store(rendezvous.host, rendezvous.port, false, timeout_s)) {}
  void publish(const std::string& address, int port) {
    const std::string text = fmt::format("{} {}", address, port);
    store_->set(key_, std::vector<std::uint8_t>(text.begin(), text.end()));
  }
  std::pair<std::string, int> published() {
    const std::vector<std::uint8_t> bytes = store_->get(key_);
    return parse_address(std::string(bytes.begin(), bytes.end()), "torchrun's store");
  }

 private:
  std::string key_;
  StorePointer store_;
};

// Rank 0's, bound before it is told to anybody.
StorePointer serve_store(const Rendezvous& rendezvous, const std::string& job_folder,
                         AgentStore* agent, double timeout_s) {
  const bool fixed = rendezvous.way == Rendezvous::Way::kFixed;
  auto store = connect_store(rendezvous.address, fixed ? rendezvous.port : 0, true, timeout_s);
  const int port = store->getPort();
  switch (rendezvous.way) {
    case Rendezvous::Way::kFolder:
      write_file(job_folder + "/port", std::to_string(port));
      break;
    case Rendezvous::Way::kOutput:
      fmt::print("{{\"rendezvous\": \"{} {}\"}}\n", rendezvous.address, port);
      std::fflush(stdout);
      break;
    case Rendezvous::Way::kAgent:
      agent->publish(rendezvous.address, port);
      break;
    case Rendezvous::Way::kFixed:
      break;
  }
  return store;
}

// The gate is put up once this rank knows where to go.
std::pair<std::unique_ptr<Gate>, StorePointer> open_store(const Rendezvous& rendezvous,
                                                          const std::string& job_folder, int rank,
                                                          double timeout_s) {
  std::unique_ptr<AgentStore> agent;
  if (rendezvous.way == Rendezvous::Way::kAgent) {
    agent = std::make_unique<AgentStore>(rendezvous, timeout_s);
  }
  std::string host = rendezvous.host;
  int port = rendezvous.port;
  if (agent && rank > 0) std::tie(host, port) = agent->published();
  if (rendezvous.way == Rendezvous::Way::kFolder && rank > 0) {
    host = rendezvous.address;
    port = published_port(job_folder + "/port", timeout_s);
  }
  auto gate = std::make_unique<Gate>(rendezvous.token, rendezvous.address);
  try {
    auto store = rank == 0 ? serve_store(rendezvous, job_folder, agent.get(), timeout_s)
                           : connect_store(host, port, false, timeout_s);
    return {std::move(gate), std::move(store)};
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& error) {
    const std::string refusal = gate->last_refusal();
    throw PeerError(fmt::format("rank {} {} {}:{}: {}{}", rank,
                                rank == 0 ? "could not listen at" : "did not reach rank 0 at",
                                rank == 0 ? rendezvous.address : host, port, short_cause(error),
                                refusal.empty() ? "" : " (" + refusal + ")"));
  }
}

std::string piece_key(int rank) { return fmt::format("shared_memory/{}", rank); }

// Which pairs of ranks see each other's memory, both ways: each says what it sees, and all
// hear it.
Pieces attach_peers(Transport& transport, c10d::Store& store) {
  const int rank = transport.rank();
  const int size = transport.size();
  Pieces pieces{std::vector<std::shared_ptr<SharedMemory>>(static_cast<std::size_t>(size))};
  at::Tensor sees = at::zeros({size, size}, at::kLong);
  auto seen = sees.accessor<std::int64_t, 2>();
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::vector<std::uint8_t> address = store.get(piece_key(peer));
    auto& piece = pieces.of_ranks[static_cast<std::size_t>(peer)];
    piece = SharedMemory::attach(std::string(address.begin(), address.end()));
    seen[rank][peer] = piece ? 1 : 0;
  }
  transport.all_reduce_sum(sees);
  for (int peer = 0; peer < size; ++peer) {
    if (seen[rank][peer] + seen[peer][rank] < 2) {
      pieces.of_ranks[static_cast<std::size_t>(peer)] = nullptr;
    }
    for (int other = 0; other < peer; ++other) {
      if (seen[other][peer] + seen[peer][other] < 2) pieces.everywhere = false;
    }
  }
  return pieces;
}

std::unique_ptr<Transport> with_shared_memory(std::unique_ptr<Transport> gloo, c10d::Store& store,
                                              double timeout_s) {
  const std::string key = piece_key(gloo->rank());
  std::shared_ptr<SharedMemory> own = SharedMemory::create();
  // Without a piece of its own a rank still answers, with an address that nobody reaches.
  const std::string address = own ? own->address() : "none";
  std::unique_ptr<SharedMemoryTransport> transport;
  Transport* connected = gloo.get();
  if (own) {
    transport = std::make_unique<SharedMemoryTransport>(std::move(gloo), own, timeout_s);
    connected = transport.get();
  }
  store.set(key, std::vector<std::uint8_t>(address.begin(), address.end()));
  Pieces pieces = attach_peers(*connected, store);
  if (!transport) return gloo;
  transport->set_peers(std::move(pieces.of_ranks), pieces.everywhere);
  return transport;
}

// Of ranks that reach one another through memory, all of them: nothing goes another way.
class NoOtherWay final : public Transport {
 public:
  NoOtherWay(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<PendingReceive> post_receive(std::int64_t, int, int) override { fail(); }
  std::unique_ptr<PendingSend> start_send(std::int64_t, int, int, const Pack&) override { fail(); }
  void all_reduce_sum(at::Tensor) override { fail(); }

 private:
  [[noreturn]] void fail() const { GP_CHECK(false, "rank {} has no memory in common", rank_); }
  int rank_;
  int size_;
};

// Empty where the system does not provide shared memory.
std::vector<std::unique_ptr<Transport>> connect_threads_through_memory(int size, double timeout_s) {
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::shared_ptr<SharedMemory>> pieces;
  for (int rank = 0; rank < size; ++rank) {
    pieces.push_back(SharedMemory::create());
    if (!pieces.back()) return {};
    auto transport = std::make_unique<SharedMemoryTransport>(
        std::make_unique<NoOtherWay>(rank, size), pieces.back(), timeout_s);
    transports.push_back(std::move(transport));
  }
  for (int rank = 0; rank < size; ++rank) {
    auto peers = pieces;
    peers[static_cast<std::size_t>(rank)] = nullptr;
    static_cast<SharedMemoryTransport&>(*transports[static_cast<std::size_t>(rank)])
        .set_peers(std::move(peers), true);
  }
  return transports;
}

// Calls `work` for each rank in a thread of its own; throws the first error.
void for_each_rank(std::size_t ranks, const std::function<void(std::size_t)>& work) {
  std::vector<std::exception_ptr> errors(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (const std::exception&) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace

std::unique_ptr<Transport> connect_processes(const Rendezvous& rendezvous,
                                             const std::string& job_folder, int rank, int size,
                                             double timeout_s, TransportKind kind) {
  try {
    auto [gate, store] = open_store(rendezvous, job_folder, rank, timeout_s);
    auto gloo = std::make_unique<GlooTransport>(store, rank, size, timeout_s, rendezvous.address,
                                                std::move(gate));
    gloo->barrier();  // all have connected, to the store and to each other
    gloo->close_gate();
    if (kind == TransportKind::kGloo || size == 1) return gloo;
    return with_shared_memory(std::move(gloo), *store, timeout_s);
  } catch (const RunError&) {
    throw;
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& error) {
    throw PeerError(fmt::format("rank {} could not connect to all of the {} ranks: {}", rank, size,
                                short_cause(error)));
  }
}

std::vector<std::unique_ptr<Transport>> connect_threads(int size, double timeout_s,
                                                        TransportKind kind) {
  if (kind == TransportKind::kAuto) {
    if (auto transports = connect_threads_through_memory(size, timeout_s); !transports.empty()) {
      return transports;
    }
  }
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(milliseconds(timeout_s));
  std::vector<std::unique_ptr<Transport>> transports(static_cast<std::size_t>(size));
  for_each_rank(transports.size(), [&](std::size_t rank) {
    transports[rank] =
        std::make_unique<GlooTransport>(store, static_cast<int>(rank), size, timeout_s);
  });
  return transports;
}

}  // namespace graphpipe

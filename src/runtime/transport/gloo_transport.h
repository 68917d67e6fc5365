// c10d's Gloo as a Transport: works between machines; a send goes through the kernel's
// sockets, and a rendezvous.

#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/transport/gate.h"
#include "runtime/transport/transport.h"

namespace graphpipe {

class GlooTransport final : public Transport {
 public:
  // Collective: connects to all ranks that share the store, which is used for nothing else
  // meanwhile. `address`: of this machine, on which it listens. `gate`: stands as long as it does.
  GlooTransport(c10::intrusive_ptr<c10d::Store> store, int rank, int size, double timeout_s,
                const std::string& address = "127.0.0.1", std::unique_ptr<Gate> gate = nullptr);
  // All ranks have connected to this one, in whatever way: nobody is let in any more.
  void close_gate();

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<PendingReceive> post_receive(std::int64_t bytes, int peer, int tag) override;
  std::unique_ptr<PendingSend> start_send(std::int64_t bytes, int peer, int tag,
                                          const Pack& pack) override;
  void all_reduce_sum(at::Tensor values) override;

 private:
  std::unique_ptr<Gate> gate_;             // null: ranks are threads that share a store in memory
  c10::intrusive_ptr<c10d::Store> store_;  // rank 0's serves the others
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  int rank_;
  int size_;
};

// The first line of a library's error, without the source place that Gloo puts before it
// ("[../gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:40543").
std::string short_cause(const std::exception& error);

}  // namespace graphpipe

// c10d's Gloo as a Transport: works between machines; a send goes through the kernel's
// sockets, and a rendezvous.

#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/transport/transport.h"

namespace graphpipe {

class GlooTransport final : public Transport {
 public:
  // Collective: connects to all ranks that share the store, which is used for nothing else
  // meanwhile.
  GlooTransport(c10::intrusive_ptr<c10d::Store> store, int rank, int size, double timeout_s);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<PendingReceive> post_receive(std::int64_t bytes, int peer, int tag) override;
  std::unique_ptr<PendingSend> start_send(std::int64_t bytes, int peer, int tag,
                                          const Pack& pack) override;
  void all_reduce_sum(at::Tensor values) override;

 private:
  c10::intrusive_ptr<c10d::Store> store_;  // rank 0's serves the others
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  int rank_;
  int size_;
};

// The first line of a library's error, without the source place that Gloo puts before it
// ("[../gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:40543").
std::string short_cause(const std::exception& error);

}  // namespace graphpipe

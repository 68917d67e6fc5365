// A transport that does what another does: tests change a part of it.

#pragma once

#include <memory>
#include <utility>

#include "runtime/transport/transport.h"

namespace graphpipe {

class ForwardingTransport : public Transport {
 public:
  explicit ForwardingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<PendingReceive> post_receive(std::int64_t bytes, int peer, int tag) override {
    return inner_->post_receive(bytes, peer, tag);
  }
  std::unique_ptr<PendingSend> start_send(std::int64_t bytes, int peer, int tag,
                                          const Pack& pack) override {
    return inner_->start_send(bytes, peer, tag, pack);
  }
  void all_reduce_sum(at::Tensor values) override { inner_->all_reduce_sum(std::move(values)); }

 private:
  std::unique_ptr<Transport> inner_;
};

}  // namespace graphpipe

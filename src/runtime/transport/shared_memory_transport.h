// Messages through memory that both ranks see; where all ranks share it, sums too.
//
// A receive is posted on a list in the receiver's piece of memory. A send that finds its
// receive there packs straight into it; one that does not packs into its own piece and
// stands on a list too, from which the receive, when it is posted, takes it. So a message
// is complete as soon as both sides have named it, as a rendezvous is, and no thread works
// behind the ranks' own.

#pragma once

#include <map>
#include <memory>
#include <vector>

#include "runtime/transport/shared_memory.h"
#include "runtime/transport/transport.h"

namespace graphpipe {

class SharedMemoryTransport final : public Transport {
 public:
  // `own`: made by this rank, and not yet seen by others.
  SharedMemoryTransport(std::unique_ptr<Transport> other, std::shared_ptr<SharedMemory> own,
                        double timeout_s);
  ~SharedMemoryTransport() override;

  // The pieces of the ranks: null for those that are reached over the other transport, and
  // for this one. All ranks must have been constructed before the first message.
  // `everywhere`: every rank has the pieces of all; the same on all ranks.
  void set_peers(std::vector<std::shared_ptr<SharedMemory>> peers, bool everywhere);

  int rank() const override { return other_->rank(); }
  int size() const override { return other_->size(); }
  std::unique_ptr<PendingReceive> post_receive(std::int64_t bytes, int peer, int tag) override;
  std::unique_ptr<PendingSend> start_send(std::int64_t bytes, int peer, int tag,
                                          const Pack& pack) override;
  // Where all ranks share memory, through rank 0, which adds up in their order.
  void all_reduce_sum(at::Tensor values) override;

 private:
  void sum_at_root(at::Tensor& values);
  void sum_through_root(at::Tensor& values);
  SharedMemory* memory_of(int peer) const { return peers_[static_cast<std::size_t>(peer)].get(); }

  std::unique_ptr<Transport> other_;
  std::shared_ptr<SharedMemory> own_;
  std::vector<std::shared_ptr<SharedMemory>> peers_;
  bool everywhere_ = false;
  std::shared_ptr<MessageHeap> heap_;
  double timeout_s_;
};

}  // namespace graphpipe

// Messages between ranks, and sums over groups of them. Gloo behind one interface;
// see docs/runtime.md for the properties of Gloo that shaped it.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace graphpipe {

// A peer was lost or did not answer in time. Never the first cause where the peer can still
// name its own.
class PeerError : public RunError {
 public:
  using RunError::RunError;
};

// A message on its way. wait() returns when it has arrived (or left), and throws
// PeerError naming the peer on loss or timeout. Wait once. Dropping it unwaited is allowed
// when the run has failed.
class PendingMessage {
 public:
  virtual ~PendingMessage() = default;
  virtual void wait() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // buffer: (n) uint8, contiguous; it must live until wait(). Messages between two ranks
  // match by tag, and must have exactly the buffer's size.
  virtual std::unique_ptr<PendingMessage> post_receive(at::Tensor buffer, int peer, int tag) = 0;
  virtual std::unique_ptr<PendingMessage> start_send(at::Tensor buffer, int peer, int tag) = 0;

  // Sums in place over all ranks; every rank gets the same bits. Collective.
  virtual void all_reduce_sum(at::Tensor values) = 0;
  virtual void barrier() = 0;
};

// Opens the connections to all peers at once (so a peer that is missing shows now).
// `store_path`: the job folder, through which the ranks find rank 0's TCP store (it
// binds a free port first, then publishes it there).
std::unique_ptr<Transport> connect_gloo(const std::string& job_folder, int rank, int size,
                                        double timeout_s);

// Ranks as threads of one process: the same Gloo over an in-memory store. transports[r]
// is used by thread r; construction itself is collective, so it is done here.
std::vector<std::unique_ptr<Transport>> connect_threads(int size, double timeout_s);

}  // namespace graphpipe

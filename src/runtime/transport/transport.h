// Messages between ranks, and sums over groups of them, behind one interface: Gloo, and
// for ranks of one machine shared memory. See docs/runtime.md for what shaped it.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/job.h"

namespace graphpipe {

// A peer was lost or did not answer in time. Never the first cause where the peer can still
// name its own.
class PeerError : public RunError {
 public:
  using RunError::RunError;
};

// A message that is to come. Dropping it unwaited is allowed when the run has failed.
class PendingReceive {
 public:
  virtual ~PendingReceive() = default;
  // Returns when it has arrived: (bytes) uint8, aligned to 64 bytes, nobody else's.
  // Throws PeerError naming the peer on loss or timeout. Wait once.
  virtual at::Tensor wait() = 0;
};

// A message on its way. Dropping it unwaited is allowed when the run has failed.
class PendingSend {
 public:
  virtual ~PendingSend() = default;
  // Returns when its receive has been posted and it has left. Throws PeerError naming the
  // peer on loss or timeout. Wait once.
  virtual void wait() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Messages between two ranks match by tag (not negative; unlike for all that are on the
  // way), and both ends give the same number of bytes.
  virtual std::unique_ptr<PendingReceive> post_receive(std::int64_t bytes, int peer, int tag) = 0;
  // `pack` is called once, before this returns: it fills the message, which is aligned to
  // 64 bytes.
  using Pack = std::function<void(std::byte* message)>;
  virtual std::unique_ptr<PendingSend> start_send(std::int64_t bytes, int peer, int tag,
                                                  const Pack& pack) = 0;

  // Sums in place over all ranks; every rank gets the same bits. Collective.
  virtual void all_reduce_sum(at::Tensor values) = 0;
  void barrier();
};

// Opens the connections to all peers at once (so a peer that is missing shows now).
// Every connection begins with the job's token (gate.h), and is made to and from the rendezvous's
// address. `job_folder`: where the port is published, if it is in a folder.
std::unique_ptr<Transport> connect_processes(const Rendezvous& rendezvous,
                                             const std::string& job_folder, int rank, int size,
                                             double timeout_s, TransportKind kind);

// Ranks as threads of one process. transports[r] is used by thread r; construction itself
// is collective, so it is done here.
std::vector<std::unique_ptr<Transport>> connect_threads(int size, double timeout_s,
                                                        TransportKind kind = TransportKind::kAuto);

}  // namespace graphpipe

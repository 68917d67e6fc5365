// Transfers between ranks that take their modelled time. The ranks, threads or processes of
// one machine, come to a transfer with the time at which they do; it starts when all have
// come and what it holds is free, which is decided a little after that time, among those who
// have come by then: ready first is served first. It knows durations, and no schedule.
//
// The little is for ranks that the machine wakes late, so that they are not overtaken for it. A
// rank's own time does not count it: whoever waited so much longer for a transfer ends its next
// task in time, where that takes as long.
//
// The state lies in a file that every rank maps.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/emulation/transfer_model.h"

namespace graphpipe {

class EmulatedNetwork {
 public:
  // Makes the state in a new file; before any rank opens it.
  static void create(const std::string& path, const TransferModel& model);
  // The model outlives the network, and is the same for all ranks.
  EmulatedNetwork(const std::string& path, const TransferModel& model, RankId rank,
                  double timeout_s);
  ~EmulatedNetwork();
  EmulatedNetwork(const EmulatedNetwork&) = delete;
  EmulatedNetwork& operator=(const EmulatedNetwork&) = delete;

  // Forgets all transfers: the next iteration begins. By one rank, while no other uses it.
  void reset();

  // This rank comes to the lane's transfer, counted from 0 in the iteration, at a time of
  // wall_s(). Each rank of the lane does so once, with the same `hold_s`.
  void come(int lane, std::int64_t transfer, double at_s, double hold_s);

  // Returns when the transfer has started, and when that was. Requires: this rank is one of the
  // lane's. Throws PeerError where it does not start within the time allowed.
  double wait_for_start(int lane, std::int64_t transfer);

 private:
  class State;
  RankId rank_;
  double timeout_s_;
  std::unique_ptr<State> state_;
};

}  // namespace graphpipe

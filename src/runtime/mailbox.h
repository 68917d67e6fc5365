// A rank's messages: receives that are posted, messages that have arrived, sends on their
// way. It does what the program's message actions say, in the program's order, and checks
// that each message is the one that was waited for.
//
// A message is one buffer. What has arrived is read in place: tensors are views into the
// buffer, which lives until its free action and as long as autograd keeps a view.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"
#include "runtime/message.h"
#include "runtime/tag_space.h"
#include "runtime/transport/transport.h"
#include "schedule/schedule.h"

namespace graphpipe {

// What the messages of one run of a program are about.
struct MailboxRun {
  bool training = true;
  std::int64_t iteration = 0;
  std::span<const std::int64_t> ids;  // [sample of the mini-batch]: in the data set
};

// The whole of a tensor (or its gradient) that a rank has for samples [lo, hi).
struct TensorPart {
  TensorId tensor;
  at::Tensor values;  // (samples.size(), ...), contiguous; undefined: zeros
  SampleRange samples;
};

class Mailbox {
 public:
  // How many channels of `tags` are the mailbox's, from 0 on.
  static std::int64_t channels(const Plan& plan);

  // What the references name must outlive the mailbox. `stand_ins`: tensors of `graph` have
  // no elements, so that messages are smaller than their actions say.
  Mailbox(const Plan& plan, const Graph& graph, Transport& transport, const TagSpace& tags,
          bool stand_ins = false);

  void begin(const MailboxRun& run);

  void post_receive(const Action& action);
  // Throws PeerError, or RunError("message 0>2 F [4,8) from rank 1: FIELD: expected ...").
  void wait_receive(const Action& action);
  // `parts` hold the tensors of the edge's layout, in its order, for at least the action's
  // samples.
  void start_send(const Action& action, const std::vector<TensorPart>& parts);
  void wait_send(const Action& action);
  void free(const Action& action);

  // Samples [lo, hi) of a tensor that the edge's messages have brought; concatenated where
  // several messages make it up.
  at::Tensor received(EdgeId edge, Direction direction, TensorId tensor, SampleRange samples) const;

  const MessageLayout& layout(EdgeId edge, Direction direction) const;

  // GP_CHECKs that nothing is left: every message of the run was waited for and freed.
  void finish() const;

 private:
  using Key = std::tuple<EdgeId, Direction, SampleRange>;
  struct Receive {
    std::unique_ptr<PendingReceive> pending;  // null: arrived
    at::Tensor message;                       // undefined: not yet
    std::int64_t sequence = 0;
  };

  static Key key(const Action& action);
  MessageHeader header(const Action& action, std::int64_t sequence) const;
  void pack(const Action& action, std::int64_t sequence, const std::vector<TensorPart>& parts,
            std::byte* message) const;
  int tag(const Action& action, std::int64_t sequence) const;
  std::int64_t bytes_on_the_way(const Action& action) const;
  std::span<const std::int64_t> ids(SampleRange samples) const;
  at::Tensor view(const at::Tensor& message, const MessageLayout& layout, TensorId tensor,
                  std::int64_t samples) const;

  const Plan& plan_;
  const Graph& graph_;
  Transport& transport_;
  std::uint64_t plan_hash_;
  std::vector<MessageLayout> layouts_;  // [2 edge + direction]
  const TagSpace& tags_;
  const bool stand_ins_;
  MailboxRun run_;
  std::map<Key, Receive> receives_;
  std::map<Key, std::unique_ptr<PendingSend>> sends_;
  std::map<std::tuple<EdgeId, Direction, RankId>, std::int64_t> received_count_;
  std::map<std::tuple<EdgeId, Direction, RankId>, std::int64_t> sent_count_;
};

}  // namespace graphpipe

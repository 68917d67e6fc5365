// Gradients summed over the ranks that hold the same parameters: the replicas of a stage,
// and stages that share a parameter. The sum is taken in the order of the ranks, whatever
// comes first, and every holder gets the same bits.
//
// A bucket's gradients, one after the other, are cut into as many parts as there are holders.
// Each holder receives everybody's share of its own part, adds them up, and sends the sum back.
// Gradients stay where they are: messages are packed from them, and sums are put there.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "runtime/message.h"
#include "runtime/tag_space.h"
#include "runtime/transport/transport.h"
#include "schedule/schedule.h"

namespace graphpipe {

class Reducer {
 public:
  // params: [parameter of the graph]; those of the buckets that this rank is in are defined.
  // `channel`: of bucket 0 among the tags; later ones follow. What the references name must
  // outlive the reducer.
  Reducer(const Graph& graph, const std::vector<Bucket>& buckets, std::uint64_t plan_hash,
          const std::vector<at::Tensor>& params, Transport& transport, const TagSpace& tags,
          std::int64_t channel);

  // Sends off this rank's gradients (zeros where there are none), and returns. Until wait()
  // they are not to change.
  void start(int bucket, std::int64_t iteration);
  // Then the gradients are the sums.
  void wait(int bucket);

 private:
  enum class Phase { kShares, kSums };
  struct Sum {  // under way
    std::int64_t iteration = 0;
    bool started = false;
    std::vector<std::unique_ptr<PendingReceive>> shares;  // [holder]; null: this rank
    std::vector<std::unique_ptr<PendingSend>> sends;
  };

  const Bucket& bucket(int index) const { return buckets_[static_cast<std::size_t>(index)]; }
  const Sum& sum(int index) const { return sums_[static_cast<std::size_t>(index)]; }
  std::size_t own_place(const Bucket& bucket) const;
  // Of the bucket's gradients, those that a holder adds up, in their order: each (elements).
  std::vector<at::Tensor> part(const Bucket& bucket, std::size_t holder) const;
  void add_up(Sum& sum, int index, const std::vector<at::Tensor>& own_part) const;
  // Of the sum that is under way.
  std::unique_ptr<PendingReceive> post(int index, Phase phase, std::size_t from,
                                       std::int64_t elements);
  std::unique_ptr<PendingSend> send(int index, Phase phase, std::size_t to,
                                    const std::vector<at::Tensor>& values);
  at::Tensor arrived(PendingReceive& receive, int index, Phase phase, std::size_t from,
                     std::int64_t elements) const;
  MessageHeader header(int index, Phase phase, std::int64_t bytes) const;
  int tag(int index, Phase phase) const;

  const Graph& graph_;
  const std::vector<Bucket>& buckets_;
  std::uint64_t plan_hash_;
  const std::vector<at::Tensor>& params_;
  Transport& transport_;
  const TagSpace& tags_;
  std::int64_t channel_;
  std::vector<Sum> sums_;               // [bucket]
  std::vector<std::uint64_t> digests_;  // [bucket]: of its parameters
};

}  // namespace graphpipe

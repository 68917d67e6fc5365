#include "runtime/reducer.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "runtime/operators.h"

namespace graphpipe {
namespace {

std::uint64_t digest_of(const Bucket& bucket) {
  std::uint64_t digest = 0;
  for (const ParamId param : bucket.params) {
    digest = combine_hash(digest, static_cast<std::uint64_t>(param.value));
  }
  return digest;
}

std::int64_t elements_of(const std::vector<at::Tensor>& pieces) {
  std::int64_t elements = 0;
  for (const at::Tensor& piece : pieces) elements += piece.numel();
  return elements;
}

// Calls what(piece, the part of `flat` that lies beside it).
template <typename What>
void beside_pieces(const std::vector<at::Tensor>& pieces, const at::Tensor& flat, What what) {
  std::int64_t next = 0;
  for (const at::Tensor& piece : pieces) {
    what(piece, flat.narrow(0, next, piece.numel()));
    next += piece.numel();
  }
}

void copy_to(const std::vector<at::Tensor>& pieces, const at::Tensor& flat) {
  beside_pieces(pieces, flat, [](const auto& piece, const auto& from) { piece.copy_(from); });
}

}  // namespace

Reducer::Reducer(const Graph& graph, const std::vector<Bucket>& buckets, std::uint64_t plan_hash,
                 const std::vector<at::Tensor>& params, Transport& transport, const TagSpace& tags,
                 std::int64_t channel)
    : graph_(graph),
      buckets_(buckets),
      plan_hash_(plan_hash),
      params_(params),
      transport_(transport),
      tags_(tags),
      channel_(channel),
      sums_(buckets.size()) {
  for (const Bucket& bucket : buckets) digests_.push_back(digest_of(bucket));
}

std::size_t Reducer::own_place(const Bucket& bucket) const {
  const auto at = std::ranges::find(bucket.ranks, RankId(transport_.rank()));
  GP_CHECK(at != bucket.ranks.end(), "rank {} reduces a bucket that it does not hold",
           transport_.rank());
  return static_cast<std::size_t>(at - bucket.ranks.begin());
}

// Parts are alike but for the last ones, which may be short or empty.
std::vector<at::Tensor> Reducer::part(const Bucket& bucket, std::size_t holder) const {
  std::int64_t count = 0;
  for (const ParamId param : bucket.params) count += params_[param.index()].numel();
  const auto holders = static_cast<std::int64_t>(bucket.ranks.size());
  const std::int64_t size = (count + holders - 1) / holders;
  const std::int64_t begin = static_cast<std::int64_t>(holder) * size;
  std::vector<at::Tensor> pieces;
  std::int64_t next = 0;  // of the parameter at hand
  for (const ParamId param : bucket.params) {
    const std::int64_t elements = params_[param.index()].numel();
    const std::int64_t lo = std::max(begin, next) - next;
    const std::int64_t hi = std::min(begin + size, next + elements) - next;
    if (lo < hi) {
      pieces.push_back(params_[param.index()].grad().view({-1}).narrow(0, lo, hi - lo));
    }
    next += elements;
  }
  return pieces;
}

MessageHeader Reducer::header(int index, Phase phase, std::int64_t bytes) const {
  MessageHeader header;
  header.magic = kMessageMagic;
  header.plan = plan_hash_;
  header.tensors = digests_[static_cast<std::size_t>(index)];
  header.iteration = sum(index).iteration;
  header.bytes = bytes;
  header.edge = -1 - index;
  header.direction = static_cast<std::int32_t>(phase);
  header.tensor_count = static_cast<std::int32_t>(bucket(index).params.size());
  header.training = 1;
  return header;
}

int Reducer::tag(int index, Phase phase) const {
  return tags_.tag(channel_ + index, 2 * sum(index).iteration + static_cast<std::int64_t>(phase));
}

std::unique_ptr<PendingReceive> Reducer::post(int index, Phase phase, std::size_t from,
                                              std::int64_t elements) {
  const std::int64_t size = dtype_bytes(graph_.param(bucket(index).params.front()).dtype);
  return transport_.post_receive(kMessageHeaderBytes + elements * size,
                                 bucket(index).ranks[from].value, tag(index, phase));
}

std::unique_ptr<PendingSend> Reducer::send(int index, Phase phase, std::size_t to,
                                           const std::vector<at::Tensor>& values) {
  std::int64_t bytes = 0;
  for (const at::Tensor& piece : values) bytes += static_cast<std::int64_t>(piece.nbytes());
  return transport_.start_send(kMessageHeaderBytes + bytes, bucket(index).ranks[to].value,
                               tag(index, phase), [&](std::byte* message) {
                                 const MessageHeader head = header(index, phase, bytes);
                                 std::memcpy(message, &head, sizeof head);
                                 message += kMessageHeaderBytes;
                                 for (const at::Tensor& piece : values) {
                                   std::memcpy(message, piece.data_ptr(), piece.nbytes());
                                   message += piece.nbytes();
                                 }
                               });
}

at::Tensor Reducer::arrived(PendingReceive& receive, int index, Phase phase, std::size_t from,
                            std::int64_t elements) const {
  const at::Tensor message = receive.wait();
  auto* bytes = reinterpret_cast<std::byte*>(message.data_ptr<std::uint8_t>());
  MessageHeader got;
  std::memcpy(&got, bytes, sizeof got);
  const Bucket& reduced = bucket(index);
  const DType dtype = graph_.param(reduced.params.front()).dtype;
  const MessageHeader expected = header(index, phase, elements * dtype_bytes(dtype));
  if (const auto fault = header_fault(expected, got)) {
    throw RunError(
        fmt::format("reduction #{} from rank {}: {}", index, reduced.ranks[from].value, *fault));
  }
  return at::from_blob(
      bytes + kMessageHeaderBytes, {elements}, [message](void*) {},
      at::TensorOptions(scalar_type(dtype)));
}

void Reducer::start(int index, std::int64_t iteration) {
  const Bucket& reduced = bucket(index);
  const std::size_t holders = reduced.ranks.size();
  const std::size_t own = own_place(reduced);
  for (const ParamId param : reduced.params) {
    const at::Tensor& held = params_[param.index()];
    if (!held.grad().defined()) held.mutable_grad() = at::zeros_like(held.detach());
  }
  Sum& sum = sums_[static_cast<std::size_t>(index)];
  sum = {};
  sum.iteration = iteration;
  sum.started = true;
  sum.shares.resize(holders);
  const std::int64_t elements = elements_of(part(reduced, own));
  for (std::size_t i = 0; i < holders; ++i) {
    if (i == own) continue;
    sum.shares[i] = post(index, Phase::kShares, i, elements);
    sum.sends.push_back(send(index, Phase::kShares, i, part(reduced, i)));
  }
}

// The own part of the bucket, in the order of the ranks: in the gradients where this rank is the
// first, else in what the first has sent.
void Reducer::add_up(Sum& sum, int index, const std::vector<at::Tensor>& own_part) const {
  const std::size_t own = own_place(bucket(index));
  at::Tensor total;
  for (std::size_t i = 0; i < sum.shares.size(); ++i) {
    if (i == own) {
      if (total.defined()) {
        beside_pieces(own_part, total,
                      [](const auto& piece, const auto& sums) { sums.add_(piece); });
      }
      continue;
    }
    const at::Tensor share =
        arrived(*sum.shares[i], index, Phase::kShares, i, elements_of(own_part));
    if (i == 0) {
      total = share;
    } else if (total.defined()) {
      total.add_(share);
    } else {
      beside_pieces(own_part, share, [](const auto& piece, const auto& more) { piece.add_(more); });
    }
    sum.shares[i].reset();
  }
  if (total.defined()) copy_to(own_part, total);
}

void Reducer::wait(int index) {
  const Bucket& reduced = bucket(index);
  const std::size_t holders = reduced.ranks.size();
  const std::size_t own = own_place(reduced);
  Sum& sum = sums_[static_cast<std::size_t>(index)];
  GP_CHECK(sum.started, "reduction #{} was not started", index);
  const std::vector<at::Tensor> own_part = part(reduced, own);
  add_up(sum, index, own_part);
  // They were posted before their owners sent what has arrived: nothing is waited for.
  for (const auto& one : sum.sends) one->wait();
  sum.sends.clear();
  std::vector<std::vector<at::Tensor>> parts(holders);
  std::vector<std::unique_ptr<PendingReceive>> others(holders);
  for (std::size_t i = 0; i < holders; ++i) {
    if (i == own) continue;
    parts[i] = part(reduced, i);
    others[i] = post(index, Phase::kSums, i, elements_of(parts[i]));
  }
  for (std::size_t i = 0; i < holders; ++i) {
    if (i != own) sum.sends.push_back(send(index, Phase::kSums, i, own_part));
  }
  for (std::size_t i = 0; i < holders; ++i) {
    if (i == own) continue;
    copy_to(parts[i], arrived(*others[i], index, Phase::kSums, i, elements_of(parts[i])));
  }
  for (const auto& one : sum.sends) one->wait();
  sum = {};
}

}  // namespace graphpipe

#include "runtime/reducer.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
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
at::Tensor Reducer::part(const at::Tensor& gradients, std::size_t holder,
                         std::size_t holders) const {
  const std::int64_t count = gradients.numel();
  const auto d = static_cast<std::int64_t>(holders);
  const std::int64_t size = (count + d - 1) / d;
  const std::int64_t lo = std::min(static_cast<std::int64_t>(holder) * size, count);
  return gradients.narrow(0, lo, std::min(size, count - lo));
}

at::Tensor Reducer::gather_gradients(const Bucket& bucket) const {
  std::int64_t count = 0;
  for (const ParamId param : bucket.params) count += params_[param.index()].numel();
  const DType dtype = graph_.param(bucket.params.front()).dtype;
  at::Tensor all = at::zeros({count}, scalar_type(dtype));
  std::int64_t next = 0;
  for (const ParamId param : bucket.params) {
    const at::Tensor& held = params_[param.index()];
    const at::Tensor part = all.narrow(0, next, held.numel());
    if (held.grad().defined()) part.copy_(held.grad().view({-1}));
    held.mutable_grad().reset();  // it comes back as a part of the sum
    next += held.numel();
  }
  return all;
}

// The parameters' gradients become views of the sums.
void Reducer::hand_out(const Bucket& bucket, const at::Tensor& sums) const {
  std::int64_t next = 0;
  for (const ParamId param : bucket.params) {
    const at::Tensor& held = params_[param.index()];
    held.mutable_grad() = sums.narrow(0, next, held.numel()).view(held.sizes());
    next += held.numel();
  }
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
                                           const at::Tensor& values) {
  const auto bytes = static_cast<std::int64_t>(values.nbytes());
  return transport_.start_send(kMessageHeaderBytes + bytes, bucket(index).ranks[to].value,
                               tag(index, phase), [&](std::byte* message) {
                                 const MessageHeader head = header(index, phase, bytes);
                                 std::memcpy(message, &head, sizeof head);
                                 std::memcpy(message + kMessageHeaderBytes, values.data_ptr(),
                                             values.nbytes());
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
  Sum& sum = sums_[static_cast<std::size_t>(index)];
  sum = {};
  sum.iteration = iteration;
  sum.gradients = gather_gradients(reduced);
  sum.shares.resize(holders);
  const std::int64_t elements = part(sum.gradients, own, holders).numel();
  for (std::size_t i = 0; i < holders; ++i) {
    if (i == own) continue;
    sum.shares[i] = post(index, Phase::kShares, i, elements);
    sum.sends.push_back(send(index, Phase::kShares, i, part(sum.gradients, i, holders)));
  }
}

void Reducer::wait(int index) {
  const Bucket& reduced = bucket(index);
  const std::size_t holders = reduced.ranks.size();
  const std::size_t own = own_place(reduced);
  Sum& sum = sums_[static_cast<std::size_t>(index)];
  GP_CHECK(sum.gradients.defined(), "reduction #{} was not started", index);
  const auto elements = [&](std::size_t i) { return part(sum.gradients, i, holders).numel(); };

  at::Tensor total;
  for (std::size_t i = 0; i < holders; ++i) {
    const at::Tensor share = i == own
                                 ? part(sum.gradients, own, holders).clone()
                                 : arrived(*sum.shares[i], index, Phase::kShares, i, elements(own));
    total = i == 0 ? share : total.add_(share);
    if (i != 0) sum.shares[i].reset();
  }
  // They were posted before their owners sent what has arrived: nothing is waited for.
  for (const auto& one : sum.sends) one->wait();
  sum.sends.clear();
  std::vector<std::unique_ptr<PendingReceive>> others(holders);
  for (std::size_t i = 0; i < holders; ++i) {
    if (i != own) others[i] = post(index, Phase::kSums, i, elements(i));
  }
  for (std::size_t i = 0; i < holders; ++i) {
    if (i != own) sum.sends.push_back(send(index, Phase::kSums, i, total));
  }
  for (std::size_t i = 0; i < holders; ++i) {
    const at::Tensor result =
        i == own ? total : arrived(*others[i], index, Phase::kSums, i, elements(i));
    part(sum.gradients, i, holders).copy_(result);
  }
  for (const auto& one : sum.sends) one->wait();
  hand_out(reduced, sum.gradients);
  sum = {};
}

}  // namespace graphpipe

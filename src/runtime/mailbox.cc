#include "runtime/mailbox.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "runtime/operators.h"

namespace graphpipe {
namespace {

std::byte* bytes_of(const at::Tensor& message) {
  return reinterpret_cast<std::byte*>(message.data_ptr<std::uint8_t>());
}

std::size_t layout_index(EdgeId edge, Direction direction) {
  return 2 * edge.index() + (direction == Direction::kForward ? 0 : 1);
}

// "message 0>2 F [4,8) from rank 1"
std::string message_text(const Action& action, const Plan& plan) {
  const StageEdge& edge = plan.edge(action.edge);
  return fmt::format("message {}>{} {} [{},{}) from rank {}", edge.from.value, edge.to.value,
                     action.direction == Direction::kForward ? 'F' : 'B', action.samples.lo,
                     action.samples.hi, action.peer.value);
}

}  // namespace

std::int64_t Mailbox::channels(const Plan& plan) {
  return 2 * static_cast<std::int64_t>(plan.edges.size());
}

Mailbox::Mailbox(const Plan& plan, const Graph& graph, Transport& transport, const TagSpace& tags,
                 bool stand_ins)
    : plan_(plan),
      graph_(graph),
      transport_(transport),
      plan_hash_(plan_hash(plan)),
      tags_(tags),
      stand_ins_(stand_ins) {
  const std::vector<bool> needs = needs_gradient(graph);
  for (const StageEdge& edge : plan.edges) {
    layouts_.emplace_back(graph, edge, Direction::kForward, needs);
    layouts_.emplace_back(graph, edge, Direction::kBackward, needs);
  }
}

void Mailbox::begin(const MailboxRun& run) {
  finish();
  run_ = run;
}

Mailbox::Key Mailbox::key(const Action& action) {
  return {action.edge, action.direction, action.samples};
}

const MessageLayout& Mailbox::layout(EdgeId edge, Direction direction) const {
  return layouts_[layout_index(edge, direction)];
}

MessageHeader Mailbox::header(const Action& action, std::int64_t sequence) const {
  const MessageLayout& layout = this->layout(action.edge, action.direction);
  MessageHeader header;
  header.magic = kMessageMagic;
  header.plan = plan_hash_;
  header.tensors = layout.digest();
  header.iteration = run_.iteration;
  header.sequence = sequence;
  header.lo = action.samples.lo;
  header.hi = action.samples.hi;
  header.bytes = action.bytes;
  header.edge = action.edge.value;
  header.direction = static_cast<std::int32_t>(action.direction);
  header.tensor_count = static_cast<std::int32_t>(layout.tensors().size());
  header.training = run_.training ? 1 : 0;
  return header;
}

int Mailbox::tag(const Action& action, std::int64_t sequence) const {
  return tags_.tag(static_cast<std::int64_t>(layout_index(action.edge, action.direction)),
                   sequence);
}

std::span<const std::int64_t> Mailbox::ids(SampleRange samples) const {
  return run_.ids.subspan(static_cast<std::size_t>(samples.lo),
                          static_cast<std::size_t>(samples.size()));
}

std::int64_t Mailbox::bytes_on_the_way(const Action& action) const {
  const std::int64_t bytes = layout(action.edge, action.direction).bytes(action.samples.size());
  GP_CHECK(bytes == action.bytes || stand_ins_, "{}: {} bytes, the program says {}",
           message_text(action, plan_), bytes, action.bytes);
  return bytes;
}

void Mailbox::post_receive(const Action& action) {
  const std::int64_t sequence = received_count_[{action.edge, action.direction, action.peer}]++;
  Receive receive{
      transport_.post_receive(bytes_on_the_way(action), action.peer.value, tag(action, sequence)),
      {},
      sequence};
  const bool is_new = receives_.emplace(key(action), std::move(receive)).second;
  GP_CHECK(is_new, "{} is posted twice", message_text(action, plan_));
}

void Mailbox::wait_receive(const Action& action) {
  const auto at = receives_.find(key(action));
  GP_CHECK(at != receives_.end() && at->second.pending, "{} was not posted",
           message_text(action, plan_));
  Receive& receive = at->second;
  receive.message = receive.pending->wait();
  receive.pending.reset();

  const std::byte* message = bytes_of(receive.message);
  MessageHeader got;
  std::memcpy(&got, message, sizeof got);
  auto fault = header_fault(header(action, receive.sequence), got);
  if (!fault) {
    const std::int64_t offset =
        layout(action.edge, action.direction).ids_offset(action.samples.size());
    fault = ids_fault(ids(action.samples), message + offset, action.samples.lo);
  }
  if (fault) throw RunError(fmt::format("{}: {}", message_text(action, plan_), *fault));
}

void Mailbox::start_send(const Action& action, const std::vector<TensorPart>& parts) {
  const MessageLayout& layout = this->layout(action.edge, action.direction);
  GP_CHECK(parts.size() == layout.tensors().size(), "{}: {} tensors, expected {}",
           message_text(action, plan_), parts.size(), layout.tensors().size());
  const std::int64_t sequence = sent_count_[{action.edge, action.direction, action.peer}]++;
  auto pending =
      transport_.start_send(bytes_on_the_way(action), action.peer.value, tag(action, sequence),
                            [&](std::byte* message) { pack(action, sequence, parts, message); });
  const bool is_new = sends_.emplace(key(action), std::move(pending)).second;
  GP_CHECK(is_new, "{} is sent twice", message_text(action, plan_));
}

void Mailbox::pack(const Action& action, std::int64_t sequence,
                   const std::vector<TensorPart>& parts, std::byte* message) const {
  const MessageLayout& layout = this->layout(action.edge, action.direction);
  const std::int64_t n = action.samples.size();
  const MessageHeader head = header(action, sequence);
  std::memcpy(message, &head, sizeof head);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::byte* to = message + layout.tensor_offset(i, n);
    const auto bytes = static_cast<std::size_t>(layout.tensor_bytes(i, n));
    const TensorPart& part = parts[i];
    if (!part.values.defined()) {
      std::memset(to, 0, bytes);
      continue;
    }
    GP_CHECK(part.tensor == layout.tensors()[i] && part.values.is_contiguous() &&
                 part.samples.lo <= action.samples.lo && action.samples.hi <= part.samples.hi,
             "{}: tensor {} does not fit", message_text(action, plan_), part.tensor.value);
    const std::int64_t skipped = action.samples.lo - part.samples.lo;
    const auto* from = static_cast<const std::byte*>(part.values.data_ptr());
    std::memcpy(to, from + layout.tensor_bytes(i, skipped), bytes);
  }
  const std::span<const std::int64_t> sample_ids = ids(action.samples);
  std::memcpy(message + layout.ids_offset(n), sample_ids.data(), sample_ids.size_bytes());
}

void Mailbox::wait_send(const Action& action) {
  const auto at = sends_.find(key(action));
  GP_CHECK(at != sends_.end(), "{} is not on its way", message_text(action, plan_));
  at->second->wait();
  sends_.erase(at);
}

void Mailbox::free(const Action& action) {
  const auto at = receives_.find(key(action));
  GP_CHECK(at != receives_.end() && !at->second.pending, "{} is not there to be freed",
           message_text(action, plan_));
  receives_.erase(at);
}

at::Tensor Mailbox::view(const at::Tensor& message, const MessageLayout& layout, TensorId tensor,
                         std::int64_t samples) const {
  std::size_t i = 0;
  while (layout.tensors()[i] != tensor) ++i;
  const Tensor& type = graph_.tensor(tensor);
  std::vector<std::int64_t> sizes = {samples};
  sizes.insert(sizes.end(), type.shape.begin(), type.shape.end());
  return at::from_blob(
      bytes_of(message) + layout.tensor_offset(i, samples), sizes, [message](void*) {},
      at::TensorOptions(scalar_type(type.dtype)));
}

at::Tensor Mailbox::received(EdgeId edge, Direction direction, TensorId tensor,
                             SampleRange samples) const {
  const MessageLayout& layout = this->layout(edge, direction);
  std::vector<at::Tensor> parts;
  std::int64_t next = samples.lo;
  for (auto at = receives_.lower_bound({edge, direction, {samples.lo, samples.lo}});
       next < samples.hi; ++at) {
    GP_CHECK(at != receives_.end() && !at->second.pending,
             "samples [{},{}) of tensor {} have not arrived", next, samples.hi, tensor.value);
    const auto& [part_edge, part_direction, part] = at->first;
    GP_CHECK(part_edge == edge && part_direction == direction && part.lo == next &&
                 part.hi <= samples.hi,
             "samples [{},{}) of tensor {} have not arrived", next, samples.hi, tensor.value);
    parts.push_back(view(at->second.message, layout, tensor, part.size()));
    next = part.hi;
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts, 0);
}

void Mailbox::finish() const {
  GP_CHECK(receives_.empty() && sends_.empty(),
           "{} received messages and {} sends are left at the end of a run", receives_.size(),
           sends_.size());
}

}  // namespace graphpipe

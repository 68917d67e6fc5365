#include "runtime/transport/shared_memory_transport.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "runtime/clock.h"
#include "runtime/counting_allocator.h"
#include "runtime/shared_mutex.h"

namespace graphpipe {
namespace {

// How often a rank that waits looks whether its peer is still there.
constexpr double kLookS = 0.05;

// Tags of the messages that sums are made of: users' are not negative.
constexpr int kShareTag = -1;
constexpr int kSumTag = -2;

// Of a message's state.
constexpr std::uint32_t kPending = 0;
constexpr std::uint32_t kAwaited = 1;  // and somebody sleeps until it is done
constexpr std::uint32_t kDone = 2;

timespec seconds_from(timespec start, double seconds) {
  const auto nanoseconds = start.tv_nsec + static_cast<std::int64_t>(seconds * 1e9);
  constexpr std::int64_t kSecond = 1'000'000'000;
  return {start.tv_sec + nanoseconds / kSecond, nanoseconds % kSecond};
}

void sleep_while_awaited(std::atomic<std::uint32_t>& state) {
  const timespec most = seconds_from({}, kLookS);
  syscall(SYS_futex, &state, FUTEX_WAIT, kAwaited, &most, nullptr, 0);
}

void complete(MessageBlock& block) {
  if (block.state.exchange(kDone) != kAwaited) return;
  syscall(SYS_futex, &block.state, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

[[noreturn]] void throw_lost(int peer, const std::string& what) {
  throw PeerError(fmt::format("rank {}: {}", peer, what));
}

[[noreturn]] void throw_sizes_differ(int peer, int tag, std::int64_t sent, std::int64_t expected) {
  throw RunError(fmt::format("message {} between this rank and rank {}: {} bytes sent, {} expected",
                             tag, peer, sent, expected));
}

// A list of blocks that lie in one piece of memory.
struct BlockList {
  std::uint64_t first = 0;

  void add(const SharedMemory& memory, std::uint64_t offset) {
    block_at(memory, offset).next = first;
    first = offset;
  }
  MessageBlock* take(const SharedMemory& memory, int tag) {
    for (std::uint64_t* at = &first; *at != 0; at = &block_at(memory, *at).next) {
      MessageBlock& block = block_at(memory, *at);
      if (block.tag != tag) continue;
      *at = block.next;
      return &block;
    }
    return nullptr;
  }

 private:
  static MessageBlock& block_at(const SharedMemory& memory, std::uint64_t offset) {
    return *reinterpret_cast<MessageBlock*>(memory.at(offset));
  }
};

// Messages that are to go one way between two ranks. It lies in the receiver's piece, as
// do the blocks of `posted`; those of `sent` lie in the sender's.
struct alignas(64) Channel {
  pthread_mutex_t lock;
  BlockList posted;
  BlockList sent;
};

// At the start of a rank's piece.
struct alignas(64) RankArea {
  std::atomic<std::uint32_t> closed;
  Channel* from(int peer) { return reinterpret_cast<Channel*>(this + 1) + peer; }
  static std::uint64_t bytes(int size) {
    return sizeof(RankArea) + sizeof(Channel) * static_cast<std::uint64_t>(size);
  }
};

RankArea& area_of(const SharedMemory& memory) { return *reinterpret_cast<RankArea*>(memory.at(0)); }

void make_area(const SharedMemory& memory, int size) {
  auto* area = new (memory.at(0)) RankArea;
  area->closed = 0;
  for (int peer = 0; peer < size; ++peer) {
    Channel* channel = new (area->from(peer)) Channel;
    make_shared_mutex(channel->lock);
  }
}

// The peer at the other end of a channel, and how long to wait for it.
struct Peer {
  std::shared_ptr<SharedMemory> memory;
  int rank = 0;
  double timeout_s = 0;

  [[noreturn]] void throw_timed_out() const {
    throw_lost(rank, fmt::format("did not answer within {} s", timeout_s));
  }

  void wait_for(MessageBlock& block) const {
    const double start_s = wall_s();
    while (block.state != kDone) {
      std::uint32_t pending = kPending;
      block.state.compare_exchange_strong(pending, kAwaited);
      if (pending == kDone) return;
      sleep_while_awaited(block.state);
      if (block.state == kDone) return;
      if (area_of(*memory).closed != 0) throw_lost(rank, "closed the connection");
      if (memory->owner_ended()) throw_lost(rank, "its process has ended");
      if (wall_s() - start_s > timeout_s) throw_timed_out();
    }
  }
};

class ChannelLock {
 public:
  ChannelLock(Channel& channel, const Peer& peer) : channel_(channel) {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const timespec end = seconds_from(now, peer.timeout_s);
    switch (pthread_mutex_timedlock(&channel.lock, &end)) {
      case 0:
        return;
      case ETIMEDOUT:
        peer.throw_timed_out();
      default:  // it died with the lock in hand
        throw_lost(peer.rank, "its process has ended");
    }
  }
  ~ChannelLock() { pthread_mutex_unlock(&channel_.lock); }
  ChannelLock(const ChannelLock&) = delete;
  ChannelLock& operator=(const ChannelLock&) = delete;

 private:
  Channel& channel_;
};

// A block of this rank until the last tensor over it is gone: counted as its memory, but for the
// few numbers that sums over all ranks send.
class OwnBlock {
 public:
  OwnBlock(std::shared_ptr<MessageHeap> heap, std::int64_t bytes, int tag)
      : heap_(std::move(heap)),
        block_(heap_->allocate(bytes, tag)),
        counted_(tag < 0 ? 0 : bytes) {}
  ~OwnBlock() { heap_->release(block_); }
  OwnBlock(const OwnBlock&) = delete;
  OwnBlock& operator=(const OwnBlock&) = delete;

  MessageBlock& block() const { return *block_; }
  std::uint64_t offset() const { return heap_->offset(block_); }

 private:
  std::shared_ptr<MessageHeap> heap_;
  MessageBlock* block_;
  CountedBytes counted_;
};

class SharedReceive final : public PendingReceive {
 public:
  SharedReceive(std::shared_ptr<OwnBlock> own, Peer peer)
      : own_(std::move(own)), peer_(std::move(peer)) {}

  at::Tensor wait() override {
    MessageBlock& block = own_->block();
    peer_.wait_for(block);
    return at::from_blob(
        block.message(), {block.bytes}, [own = own_](void*) {}, at::TensorOptions(at::kByte));
  }

 private:
  std::shared_ptr<OwnBlock> own_;
  Peer peer_;
};

class SharedSend final : public PendingSend {
 public:
  // Of a message that has left.
  SharedSend() = default;
  // Of one that waits in this rank's memory.
  SharedSend(std::shared_ptr<OwnBlock> own, Peer peer)
      : own_(std::move(own)), peer_(std::move(peer)) {}

  void wait() override {
    if (own_) peer_.wait_for(own_->block());
  }

 private:
  std::shared_ptr<OwnBlock> own_;
  Peer peer_;
};

}  // namespace

SharedMemoryTransport::SharedMemoryTransport(std::unique_ptr<Transport> other,
                                             std::shared_ptr<SharedMemory> own, double timeout_s)
    : other_(std::move(other)),
      own_(std::move(own)),
      heap_(std::make_shared<MessageHeap>(own_, RankArea::bytes(other_->size()))),
      timeout_s_(timeout_s) {
  make_area(*own_, other_->size());
}

SharedMemoryTransport::~SharedMemoryTransport() { area_of(*own_).closed = 1; }

void SharedMemoryTransport::set_peers(std::vector<std::shared_ptr<SharedMemory>> peers,
                                      bool everywhere) {
  GP_CHECK(static_cast<int>(peers.size()) == size(), "{} pieces of memory for {} ranks",
           peers.size(), size());
  peers_ = std::move(peers);
  everywhere_ = everywhere;
}

std::unique_ptr<PendingReceive> SharedMemoryTransport::post_receive(std::int64_t bytes, int rank,
                                                                    int tag) {
  if (memory_of(rank) == nullptr) return other_->post_receive(bytes, rank, tag);
  const Peer peer{peers_[static_cast<std::size_t>(rank)], rank, timeout_s_};
  Channel& channel = *area_of(*own_).from(rank);
  auto own = std::make_shared<OwnBlock>(heap_, bytes, tag);
  MessageBlock* sent = nullptr;
  {
    const ChannelLock lock(channel, peer);
    sent = channel.sent.take(*peer.memory, tag);
    if (sent == nullptr) channel.posted.add(*own_, own->offset());
  }
  if (sent != nullptr) {
    if (sent->bytes != bytes) throw_sizes_differ(rank, tag, sent->bytes, bytes);
    std::memcpy(own->block().message(), sent->message(), static_cast<std::size_t>(bytes));
    complete(*sent);
    own->block().state = kDone;
  }
  return std::make_unique<SharedReceive>(std::move(own), peer);
}

std::unique_ptr<PendingSend> SharedMemoryTransport::start_send(std::int64_t bytes, int rank,
                                                               int tag, const Pack& pack) {
  if (memory_of(rank) == nullptr) return other_->start_send(bytes, rank, tag, pack);
  const Peer peer{peers_[static_cast<std::size_t>(rank)], rank, timeout_s_};
  Channel& channel = *area_of(*peer.memory).from(this->rank());
  MessageBlock* posted = nullptr;
  {
    const ChannelLock lock(channel, peer);
    posted = channel.posted.take(*peer.memory, tag);
  }
  std::shared_ptr<OwnBlock> own;
  if (posted == nullptr) {
    own = std::make_shared<OwnBlock>(heap_, bytes, tag);
    pack(own->block().message());
    const ChannelLock lock(channel, peer);
    posted = channel.posted.take(*peer.memory, tag);  // it may have been posted meanwhile
    if (posted == nullptr) channel.sent.add(*own_, own->offset());
  }
  if (posted == nullptr) return std::make_unique<SharedSend>(std::move(own), peer);
  if (posted->bytes != bytes) throw_sizes_differ(rank, tag, bytes, posted->bytes);
  if (own) {
    std::memcpy(posted->message(), own->block().message(), static_cast<std::size_t>(bytes));
  } else {
    pack(posted->message());
  }
  complete(*posted);
  return std::make_unique<SharedSend>();
}

// A rank sends its next share only when it has the last sum, so no two messages between two
// ranks have one tag at a time.
void SharedMemoryTransport::all_reduce_sum(at::Tensor values) {
  if (!everywhere_) return other_->all_reduce_sum(std::move(values));
  GP_CHECK(values.is_contiguous(), "a sum over a tensor with gaps");
  if (rank() == 0) {
    sum_at_root(values);
  } else {
    sum_through_root(values);
  }
}

void SharedMemoryTransport::sum_at_root(at::Tensor& values) {
  const auto bytes = static_cast<std::int64_t>(values.nbytes());
  std::vector<std::unique_ptr<PendingReceive>> shares;
  for (int peer = 1; peer < size(); ++peer) shares.push_back(post_receive(bytes, peer, kShareTag));
  for (const auto& share : shares) {
    const at::Tensor message = share->wait();
    values.add_(at::from_blob(message.data_ptr(), values.sizes(), values.options()));
  }
  std::vector<std::unique_ptr<PendingSend>> sends;
  for (int peer = 1; peer < size(); ++peer) {
    sends.push_back(start_send(bytes, peer, kSumTag, [&](std::byte* message) {
      std::memcpy(message, values.data_ptr(), values.nbytes());
    }));
  }
  for (const auto& send : sends) send->wait();
}

void SharedMemoryTransport::sum_through_root(at::Tensor& values) {
  const auto bytes = static_cast<std::int64_t>(values.nbytes());
  const auto sum = post_receive(bytes, 0, kSumTag);
  const auto share = start_send(bytes, 0, kShareTag, [&](std::byte* message) {
    std::memcpy(message, values.data_ptr(), values.nbytes());
  });
  const at::Tensor message = sum->wait();
  share->wait();  // the sum holds it: it has left
  std::memcpy(values.data_ptr(), message.data_ptr(), values.nbytes());
}

}  // namespace graphpipe

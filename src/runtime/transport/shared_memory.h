// Memory that the ranks of a machine share: every rank has one piece, in which its peers
// find the receives that it has posted and the messages that it has sent before they were.
//
// The piece is an anonymous file, so nothing is left when processes end, however they do.
// It is as large as the machine's memory, of which only what is used exists.

#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace graphpipe {

class SharedMemory {
 public:
  // Null where the system does not provide it.
  static std::shared_ptr<SharedMemory> create();
  // That of another process, as its address() says; null where it cannot be reached: on
  // another machine, in another container.
  static std::shared_ptr<SharedMemory> attach(const std::string& address);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::string address() const;
  std::byte* at(std::uint64_t offset) const { return data_ + offset; }
  std::size_t capacity() const { return capacity_; }
  // Whether the process that made it has ended (never, where it is this one).
  bool owner_ended() const;

 private:
  SharedMemory() = default;
  bool map(int file, std::size_t capacity);

  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  int file_ = -1;
  int owner_ = -1;  // a pidfd; -1: this process
};

// Stands before the bytes of a message in a piece of shared memory.
struct alignas(64) MessageBlock {
  std::atomic<std::uint32_t> state;
  std::int32_t tag;
  std::int64_t bytes;
  std::uint64_t next;      // in a list: offset of the next block; 0: none
  std::uint64_t capacity;  // bytes that the block has room for

  std::byte* message() { return reinterpret_cast<std::byte*>(this + 1); }
};

// Blocks of the rank's own piece, from `begin` on. Blocks of one size are used again.
class MessageHeap {
 public:
  MessageHeap(std::shared_ptr<SharedMemory> memory, std::uint64_t begin);
  // Throws RunError when the piece is full.
  MessageBlock* allocate(std::int64_t bytes, int tag);
  void release(MessageBlock* block);  // from any thread
  std::uint64_t offset(const MessageBlock* block) const;

 private:
  std::shared_ptr<SharedMemory> memory_;
  std::mutex mutex_;
  std::uint64_t next_;
  std::map<std::uint64_t, std::vector<MessageBlock*>> free_;  // by capacity
};

}  // namespace graphpipe

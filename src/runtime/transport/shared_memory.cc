#include "runtime/transport/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <new>
#include <sstream>

#include "base/error.h"

namespace graphpipe {
namespace {

constexpr std::uint64_t kRounding = 256;

// What two processes have in common when a process id means the same to both; "" where
// that cannot be told.
std::string process_space() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> name = {};
  const ssize_t n = readlink("/proc/self/ns/pid", name.data(), name.size());
  return boot.empty() || n <= 0
             ? ""
             : boot + "/" + std::string(name.data(), static_cast<std::size_t>(n));
}

std::size_t memory_of_machine() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

bool SharedMemory::map(int file, std::size_t capacity) {
  file_ = file;
  void* data = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (data == MAP_FAILED) return false;
  data_ = static_cast<std::byte*>(data);
  capacity_ = capacity;
  return true;
}

std::shared_ptr<SharedMemory> SharedMemory::create() {
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  const int file = memfd_create("graphpipe", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  const std::size_t capacity = memory_of_machine();
  if (!memory->map(file, capacity)) return nullptr;
  return ftruncate(file, static_cast<off_t>(capacity)) == 0 ? memory : nullptr;
}

std::string SharedMemory::address() const {
  return fmt::format("{} {} {} {}", process_space(), getpid(), file_, capacity_);
}

std::shared_ptr<SharedMemory> SharedMemory::attach(const std::string& address) {
  std::istringstream words(address);
  std::string space;
  pid_t process = 0;
  int file = -1;
  std::size_t capacity = 0;
  words >> space >> process >> file >> capacity;
  if (!words || space != process_space()) return nullptr;
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  const int opened = open(fmt::format("/proc/{}/fd/{}", process, file).c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0 || !memory->map(opened, capacity)) return nullptr;
  if (process == getpid()) return memory;
  memory->owner_ = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  return memory->owner_ >= 0 ? memory : nullptr;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, capacity_);
  if (file_ >= 0) close(file_);
  if (owner_ >= 0) close(owner_);
}

bool SharedMemory::owner_ended() const {
  pollfd owner = {owner_, POLLIN, 0};
  return owner_ >= 0 && poll(&owner, 1, 0) > 0;
}

MessageHeap::MessageHeap(std::shared_ptr<SharedMemory> memory, std::uint64_t begin)
    : memory_(std::move(memory)), next_((begin + kRounding - 1) / kRounding * kRounding) {}

MessageBlock* MessageHeap::allocate(std::int64_t bytes, int tag) {
  const std::uint64_t needed = sizeof(MessageBlock) + static_cast<std::uint64_t>(bytes);
  const std::uint64_t size = (needed + kRounding - 1) / kRounding * kRounding;
  MessageBlock* block = nullptr;
  const std::lock_guard guard(mutex_);
  if (std::vector<MessageBlock*>& same = free_[size]; !same.empty()) {
    block = same.back();
    same.pop_back();
  } else {
    if (size > memory_->capacity() - next_) {
      throw RunError(fmt::format("a message of {} bytes: the {} bytes of shared memory are full",
                                 bytes, memory_->capacity()));
    }
    block = new (memory_->at(next_)) MessageBlock;
    next_ += size;
  }
  block->state = 0;
  block->tag = tag;
  block->bytes = bytes;
  block->next = 0;
  block->capacity = size;
  return block;
}

void MessageHeap::release(MessageBlock* block) {
  const std::lock_guard guard(mutex_);
  free_[block->capacity].push_back(block);
}

std::uint64_t MessageHeap::offset(const MessageBlock* block) const {
  return static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(block) - memory_->at(0));
}

}  // namespace graphpipe

#include "runtime/counting_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/version.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <mutex>

namespace graphpipe {
namespace {

struct Counter {
  std::atomic<std::int64_t> live{0};
  std::atomic<std::int64_t> peak{0};

  void add(std::int64_t bytes) {
    const std::int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t seen = peak.load(std::memory_order_relaxed);
    while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
  }
  void subtract(std::int64_t bytes) { live.fetch_sub(bytes, std::memory_order_relaxed); }
};

// Counters outlive their threads: a tensor may be freed after the thread that made it.
Counter& new_counter() {
  static std::mutex mutex;
  static std::deque<Counter> counters;
  const std::lock_guard lock(mutex);
  return counters.emplace_back();
}

Counter& thread_counter() {
  thread_local Counter& counter = new_counter();
  return counter;
}

// Before each block: whose it is and how large. 64 bytes keep the library's alignment.
struct Header {
  Counter* counter;
  std::int64_t bytes;
};
constexpr std::size_t kHeaderBytes = 64;
static_assert(sizeof(Header) <= kHeaderBytes);

void release(void* data) {
  if (!data) return;
  auto* block = static_cast<std::byte*>(data) - kHeaderBytes;
  Header header;
  std::memcpy(&header, block, sizeof header);
  header.counter->subtract(header.bytes);
  c10::free_cpu(block);
}

c10::DataPtr counted(std::size_t bytes) {
  if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
  const Header header{&thread_counter(), static_cast<std::int64_t>(bytes)};
  auto* block = static_cast<std::byte*>(c10::alloc_cpu(bytes + kHeaderBytes));
  std::memcpy(block, &header, sizeof header);
  header.counter->add(header.bytes);
  void* data = block + kHeaderBytes;
  return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
}

class CountingAllocator final : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR >= 2
  c10::DataPtr allocate(std::size_t bytes) override { return counted(bytes); }
  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }
#else
  c10::DataPtr allocate(std::size_t bytes) const override { return counted(bytes); }
#endif
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
};

std::atomic<bool> installed{false};

}  // namespace

void install_counting_allocator() {
  if (installed.exchange(true)) return;
  static CountingAllocator allocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/100);
}

bool counting_allocator_installed() { return installed; }

std::int64_t live_tensor_bytes() { return thread_counter().live; }

std::int64_t peak_tensor_bytes() { return thread_counter().peak; }

void reset_peak_tensor_bytes() {
  Counter& counter = thread_counter();
  counter.peak = counter.live.load();
}

CountedBytes::CountedBytes(std::int64_t bytes) : counter_(&thread_counter()), bytes_(bytes) {
  static_cast<Counter*>(counter_)->add(bytes_);
}

CountedBytes::~CountedBytes() { static_cast<Counter*>(counter_)->subtract(bytes_); }

}  // namespace graphpipe

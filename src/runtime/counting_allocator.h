// Counts the bytes of tensors, exactly, per thread that makes them: a rank's memory, also
// where ranks are threads. What the matrix library and malloc take beside is not counted.

#pragma once

#include <cstdint>

namespace graphpipe {

// Makes the library's CPU tensors go through the counter, from now on. Once per process,
// before threads start; more calls do nothing.
void install_counting_allocator();
bool counting_allocator_installed();

// Bytes of the tensors made by this thread that are alive (whoever frees them), and the
// most that were alive at once since reset_peak_tensor_bytes(). 0 where not installed.
std::int64_t live_tensor_bytes();
std::int64_t peak_tensor_bytes();
void reset_peak_tensor_bytes();

// Counts memory that tensors lie in though the library's allocator did not make it, as
// this thread's while the object lives.
class CountedBytes {
 public:
  explicit CountedBytes(std::int64_t bytes);
  ~CountedBytes();
  CountedBytes(const CountedBytes&) = delete;
  CountedBytes& operator=(const CountedBytes&) = delete;

 private:
  void* counter_;
  std::int64_t bytes_;
};

}  // namespace graphpipe

// The few operations on files that a checkpoint is made of. What has been written is on the disk
// when write() returns; each step is announced, so that a test can end a process before any of
// them.

#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace graphpipe {

class DurableFiles {
 public:
  using Step = std::function<void(const std::string& what)>;  // "write PATH", "rename PATH", ...
  static constexpr std::size_t kChunkBytes = std::size_t{16} << 20;

  // `before_step` may throw, or end the process; it may be empty.
  explicit DurableFiles(Step before_step = {}, std::size_t chunk_bytes = kChunkBytes)
      : before_step_(std::move(before_step)), chunk_bytes_(chunk_bytes) {}

  // All throw RunError("cannot ... PATH: REASON") where the system refuses.
  void make_folder(const std::string& path) const;  // and those above it; it may be there
  // A file that is new, or replaced: not at once, see replace().
  void write(const std::string& path, std::string_view bytes) const;
  // Whole or not at all: beside it, and renamed.
  void replace(const std::string& path, std::string_view bytes) const;
  // Within one folder, which is on the disk then.
  void rename(const std::string& from, const std::string& to) const;
  void sync_folder(const std::string& path) const;
  void remove_all(const std::string& path) const;  // it may be gone

 private:
  void step(const char* what, const std::string& path) const;

  Step before_step_;
  std::size_t chunk_bytes_;
};

}  // namespace graphpipe

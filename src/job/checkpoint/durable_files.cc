#include "job/checkpoint/durable_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace graphpipe {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const char* what, const std::string& path, const std::string& reason) {
  throw RunError(fmt::format("cannot {} {}: {}", what, path, reason));
}

// Closes what it holds.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags)
      : path_(path), file_(open(path.c_str(), flags, 0644)) {
    if (file_ < 0) refuse("open", path, std::strerror(errno));
  }
  ~OpenFile() {
    if (file_ >= 0) close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) refuse("write", path_, std::strerror(errno));
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  void sync() {
    if (fsync(file_) != 0) refuse("write", path_, std::strerror(errno));
  }

 private:
  const std::string& path_;
  int file_;
};

}  // namespace

void DurableFiles::step(const char* what, const std::string& path) const {
  if (before_step_) before_step_(fmt::format("{} {}", what, path));
}

void DurableFiles::make_folder(const std::string& path) const {
  step("make", path);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) refuse("make", path, error.message());
}

void DurableFiles::write(const std::string& path, std::string_view bytes) const {
  step("open", path);
  OpenFile file(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
  for (std::size_t at = 0; at < bytes.size(); at += chunk_bytes_) {
    step("write", path);
    file.write(bytes.substr(at, std::min(chunk_bytes_, bytes.size() - at)));
  }
  step("sync", path);
  file.sync();
}

void DurableFiles::replace(const std::string& path, std::string_view bytes) const {
  const std::string beside = path + ".tmp";
  write(beside, bytes);
  rename(beside, path);
}

void DurableFiles::rename(const std::string& from, const std::string& to) const {
  step("rename", from);
  if (std::rename(from.c_str(), to.c_str()) != 0) refuse("rename", from, std::strerror(errno));
  sync_folder(fs::path(to).parent_path());
}

void DurableFiles::sync_folder(const std::string& path) const {
  step("sync", path);
  OpenFile(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC).sync();
}

void DurableFiles::remove_all(const std::string& path) const {
  step("remove", path);
  std::error_code error;
  fs::remove_all(path, error);
  if (error && error != std::errc::no_such_file_or_directory) {
    refuse("remove", path, error.message());
  }
}

}  // namespace graphpipe

#include "base/file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace graphpipe {
namespace {

constexpr std::size_t kMostOfAStream = std::size_t{256} << 20;

std::string system_reason() { return std::strerror(errno); }

}  // namespace

std::string read_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError(path, "cannot read: it is a folder, and a file is expected");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError(path, "cannot read: " + system_reason());
  // A file has an end; what else there is need not.
  const bool has_end = std::filesystem::is_regular_file(path, ignored);
  std::string text;
  std::array<char, 1 << 16> part;
  while (in.read(part.data(), part.size()) || in.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
    if (!has_end && text.size() > kMostOfAStream) {
      throw InputError(path, fmt::format("cannot read: it is no file, and has more than {} bytes",
                                         kMostOfAStream));
    }
  }
  if (in.bad()) throw InputError(path, "cannot read: " + system_reason());
  return text;
}

void write_file(const std::string& path, std::string_view text) {
  namespace fs = std::filesystem;
  // A pipe or a terminal is written to, not replaced.
  std::error_code ignored;
  const bool replace = !fs::exists(path, ignored) || fs::is_regular_file(path, ignored);
  const std::string target = replace ? fmt::format("{}.tmp{}", path, getpid()) : path;
  errno = 0;
  std::ofstream out(target, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out) {
    const std::string reason = system_reason();
    if (replace) fs::remove(target, ignored);
    throw InputError(path, "cannot write: " + reason);
  }
  if (!replace) return;
  std::error_code error;
  fs::rename(target, path, error);
  if (error) {
    fs::remove(target, ignored);
    throw InputError(path, "cannot write: " + error.message());
  }
}

}  // namespace graphpipe

#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace graphpipe {

namespace {
constexpr int kBarCells = 24;
constexpr auto kLeastInterval = std::chrono::milliseconds(100);
}  // namespace

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputc('\n', stderr);
}

void ProgressLine::draw(const std::string& label, double fraction, const std::string& what) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - last_ < kLeastInterval) return;
  last_ = now;
  drawn_ = true;
  fraction = std::clamp(fraction, 0.0, 1.0);
  const int full = static_cast<int>(fraction * kBarCells + 0.5);
  fmt::print(stderr, "\r\x1b[K{} [{:#<{}}{:.<{}}] {:3.0f} %  {}", label, "", full, "",
             kBarCells - full, 100 * fraction, what);
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace graphpipe

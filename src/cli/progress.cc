#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/terminal.h"

namespace graphpipe {

namespace {
constexpr int kBarCells = 24;
constexpr auto kLeastInterval = std::chrono::milliseconds(100);
// Before that, the pace is not known.
constexpr double kLeastElapsed_s = 1;
}  // namespace

ProgressLine::ProgressLine() : terminal_(progress_wanted()) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputc('\n', stderr);
}

void ProgressLine::draw(const std::string& label, double fraction, const std::string& what) {
  const auto now = std::chrono::steady_clock::now();
  if (fraction < last_fraction_ || start_ == std::chrono::steady_clock::time_point{}) {
    start_ = now;  // an epoch begins
    first_fraction_ = fraction;
  }
  last_fraction_ = fraction;
  if (!terminal_ || now - last_ < kLeastInterval) return;
  last_ = now;
  drawn_ = true;
  fraction = std::clamp(fraction, 0.0, 1.0);
  const int full = static_cast<int>(fraction * kBarCells + 0.5);
  fmt::print(stderr, "\r\x1b[K{} [{:#<{}}{:.<{}}] {:3.0f} %  {}{}", label, "", full, "",
             kBarCells - full, 100 * fraction, what, left_text(now, fraction));
  std::fflush(stderr);
}

// At the pace since the start of the bar.
std::string ProgressLine::left_text(std::chrono::steady_clock::time_point now,
                                    double fraction) const {
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  const double done = fraction - first_fraction_;
  if (done <= 0 || elapsed_s < kLeastElapsed_s || fraction >= 1) return "";
  const double left_s = elapsed_s * (1 - fraction) / done;
  if (left_s < 60) return fmt::format("  {:.0f} s left", left_s);
  if (left_s < 3600) return fmt::format("  {:.0f} min left", left_s / 60);
  return fmt::format("  {:.1f} h left", left_s / 3600);
}

void ProgressLine::clear() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace graphpipe

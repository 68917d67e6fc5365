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

double seconds_between(Pace::Clock::time_point from, Pace::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}
}  // namespace

void Pace::reach(double done, Clock::time_point now) {
  if (!started_ || done < done_) {
    started_ = true;
    start_ = last_ = now;
    first_done_ = done_ = done;
  } else if (done > done_) {
    last_ = now;
    done_ = done;
  }
}

// The pace is known as of the last step; since then so much less is left.
double Pace::left_s(Clock::time_point now) const {
  const double gained = done_ - first_done_;
  if (gained <= 0 || done_ >= 1 || elapsed_s(now) < kLeastElapsed_s) return -1;
  const double then_s = seconds_between(start_, last_) * (1 - done_) / gained;
  const double left_s = then_s - seconds_between(last_, now);
  return left_s > 0 ? left_s : -1;
}

double Pace::elapsed_s(Clock::time_point now) const { return seconds_between(start_, now); }

std::string left_text(double left_s) {
  if (left_s < 60) return fmt::format("{:.0f} s left", left_s);
  if (left_s < 3600) return fmt::format("{:.0f} min left", left_s / 60);
  return fmt::format("{:.1f} h left", left_s / 3600);
}

std::string progress_bar(const std::string& label, double done, const std::string& what,
                         double left_s) {
  done = std::clamp(done, 0.0, 1.0);
  const int full = static_cast<int>(done * kBarCells + 0.5);
  std::string text = fmt::format("{} [{:#<{}}{:.<{}}] {:3.0f} %", label, "", full, "",
                                 kBarCells - full, 100 * done);
  if (!what.empty()) text += "  " + what;
  if (left_s >= 0) text += "  " + left_text(left_s);
  return text;
}

ProgressLine::ProgressLine() : terminal_(progress_wanted()) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputc('\n', stderr);
}

void ProgressLine::draw(const std::string& label, double done, const std::string& what) {
  const auto now = Pace::Clock::now();
  pace_.reach(done, now);
  if (!terminal_ || now - last_ < kLeastInterval) return;
  last_ = now;
  drawn_ = true;
  fmt::print(stderr, "\r\x1b[K{}", progress_bar(label, done, what, pace_.left_s(now)));
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace graphpipe

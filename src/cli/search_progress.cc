#include "cli/search_progress.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "cli/terminal.h"

namespace graphpipe {

namespace {

constexpr auto kBeforeFirst = std::chrono::seconds(1);
constexpr auto kInterval = std::chrono::milliseconds(250);

}  // namespace

SearchProgress::SearchProgress(std::string what, double time_limit_s)
    : what_(std::move(what)), time_limit_s_(time_limit_s) {
  if (progress_wanted()) thread_ = std::thread([this] { run(); });
}

SearchProgress::~SearchProgress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

SearchControl SearchProgress::control() {
  SearchControl control{time_limit_s_, {}};
  if (!thread_.joinable()) return control;
  control.progress = [this](const std::string& phase, double done) {
    const std::lock_guard lock(mutex_);
    if (phase != what_) pace_ = {};
    what_ = phase;
    told_ = true;
    pace_.reach(done, Pace::Clock::now());
  };
  return control;
}

void SearchProgress::run() {
  std::unique_lock lock(mutex_);
  bool drawn = false;
  const auto wait = [&](auto duration) {
    return ended_.wait_for(lock, duration, [this] { return end_; });
  };
  for (bool ended = wait(kBeforeFirst); !ended; ended = wait(kInterval)) {
    fmt::print(stderr, "\r\x1b[K{}", text(Pace::Clock::now()));
    std::fflush(stderr);
    drawn = true;
  }
  if (drawn) fmt::print(stderr, "\r\x1b[K");
}

// What is left of the time limit where the search would take longer, or does not say.
std::string SearchProgress::text(Pace::Clock::time_point now) const {
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  std::string text = told_ ? progress_bar(what_, pace_.done(), "", -1)
                           : fmt::format("{} searches: {:.0f} s", what_, elapsed_s);
  const double left_s = told_ ? pace_.left_s(now) : -1;
  const double limit_left_s = time_limit_s_ - elapsed_s;
  if (time_limit_s_ > 0 && limit_left_s <= 0) return text + ", ends soon";
  if (time_limit_s_ > 0 && (left_s < 0 || left_s > limit_left_s)) {
    return text + "  at most " + left_text(limit_left_s);
  }
  return left_s < 0 ? text : text + "  " + left_text(left_s);
}

}  // namespace graphpipe

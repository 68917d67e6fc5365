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

std::string progress_text(const std::string& what, double elapsed_s, double time_limit_s) {
  std::string text = fmt::format("{} searches: {:.0f} s", what, elapsed_s);
  if (time_limit_s > elapsed_s) {
    text += fmt::format(", at most {:.0f} s left", time_limit_s - elapsed_s);
  } else if (time_limit_s > 0) {
    text += ", ends soon";
  }
  return text;
}

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

void SearchProgress::run() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  bool drawn = false;
  const auto wait = [&](auto duration) {
    return ended_.wait_for(lock, duration, [this] { return end_; });
  };
  for (bool ended = wait(kBeforeFirst); !ended; ended = wait(kInterval)) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    fmt::print(stderr, "\r\x1b[K{}", progress_text(what_, elapsed.count(), time_limit_s_));
    std::fflush(stderr);
    drawn = true;
  }
  if (drawn) fmt::print(stderr, "\r\x1b[K");
}

}  // namespace graphpipe

// A line on standard error while a search takes longer than a second, "piper, partitions
// [####....]  31 %  12 s left"; only on a terminal.

#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "cli/progress.h"
#include "search/search.h"

namespace graphpipe {

class SearchProgress {
 public:
  // `what` is searched, until the search itself says more: "graphpipe". `time_limit_s`: 0 for none.
  SearchProgress(std::string what, double time_limit_s);
  ~SearchProgress();  // wipes the line
  SearchProgress(const SearchProgress&) = delete;
  SearchProgress& operator=(const SearchProgress&) = delete;

  // The limit, and this line, which must outlive the search.
  SearchControl control();

 private:
  void run();
  std::string text(Pace::Clock::time_point now) const;

  std::string what_;
  double time_limit_s_;
  Pace::Clock::time_point start_ = Pace::Clock::now();
  Pace pace_;          // of the phase
  bool told_ = false;  // by the search
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace graphpipe

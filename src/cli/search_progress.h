// A line on standard error while a search takes longer than a second, "graphpipe searches: 3 s of
// at most 10 s"; only on a terminal.

#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace graphpipe {

class SearchProgress {
 public:
  // `what`: "graphpipe", say. `time_limit_s`: 0 for none.
  SearchProgress(std::string what, double time_limit_s);
  ~SearchProgress();  // wipes the line
  SearchProgress(const SearchProgress&) = delete;
  SearchProgress& operator=(const SearchProgress&) = delete;

 private:
  void run();

  std::string what_;
  double time_limit_s_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace graphpipe

// One line of progress on standard error, redrawn in place; only on a terminal.

#pragma once

#include <chrono>
#include <string>

namespace graphpipe {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // ends the line
  bool shown() const { return terminal_; }

  // "epoch 3 [#######....]  62 %  what"; at most ten times a second.
  void draw(const std::string& label, double fraction, const std::string& what);
  // Wipes the line, so that a whole line can be printed.
  void clear();

 private:
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace graphpipe

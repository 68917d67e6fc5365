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

  // "epoch 3 [#######....]  62 %  what  12 s left"; at most ten times a second. A fraction that
  // falls begins a new bar.
  void draw(const std::string& label, double fraction, const std::string& what);
  // Wipes the line, so that a whole line can be printed.
  void clear();

 private:
  std::string left_text(std::chrono::steady_clock::time_point now, double fraction) const;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
  std::chrono::steady_clock::time_point start_{};  // of the bar
  double first_fraction_ = 0;
  double last_fraction_ = 0;
};

}  // namespace graphpipe

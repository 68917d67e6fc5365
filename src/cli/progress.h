// One line of progress on standard error, redrawn in place; only on a terminal.

#pragma once

#include <chrono>
#include <string>

namespace graphpipe {

// How long what is left takes, at the pace since the start.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  // So much is done, 0 to 1. Less than before: a new start.
  void reach(double done, Clock::time_point now);
  double done() const { return done_; }
  // Below 0: not known yet, or a step takes longer than all were to take.
  double left_s(Clock::time_point now) const;
  double elapsed_s(Clock::time_point now) const;

 private:
  bool started_ = false;
  Clock::time_point start_{};
  Clock::time_point last_{};  // when `done_` was reached
  double first_done_ = 0;
  double done_ = 0;
};

// "epoch 3 [#######....]  62 %  what  12 s left"; without the last for a `left_s` below 0.
std::string progress_bar(const std::string& label, double done, const std::string& what,
                         double left_s);
std::string left_text(double left_s);  // "12 s left"

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // ends the line
  bool shown() const { return terminal_; }

  // A progress_bar(), at most ten times a second. A part that falls begins a new bar.
  void draw(const std::string& label, double done, const std::string& what);
  // Wipes the line, so that a whole line can be printed.
  void clear();

 private:
  bool terminal_;
  bool drawn_ = false;
  Pace::Clock::time_point last_{};
  Pace pace_;
};

}  // namespace graphpipe

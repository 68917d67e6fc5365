// The two ways in which things go wrong here: the world gave us something wrong
// (InputError), or we were wrong (GP_CHECK). A question whose answer is "no" is
// neither; it returns std::optional or a result that says why.

#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace graphpipe {

// A file, flag, profile or plan that breaks its rules. `where` names the place
// ("plan.json: /stages/3/ops", "graph.txt:17", "--devices"); `what` says what was
// expected, what was found and what to do. The command line prints
// "error: WHERE: WHAT" and exits with 2.
class InputError : public std::runtime_error {
 public:
  InputError(std::string where, std::string what);
  const std::string& where() const { return where_; }
  const std::string& message() const { return message_; }

 private:
  std::string where_;
  std::string message_;
};

// A defect of this program. The command line exits with 70.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// A run that failed after it began (a peer lost, a timeout, out of memory). The
// command line prints the first cause once and exits with 3.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void fail_check(const char* file, int line, const char* condition,
                             const std::string& message);

}  // namespace graphpipe

// On in every build. The message is a format string: GP_CHECK(n > 0, "n is {}", n).
#define GP_CHECK(condition, ...)                                                         \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      ::graphpipe::fail_check(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
    }                                                                                    \
  } while (false)

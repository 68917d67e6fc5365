// For tests: faults as text.

#pragma once

#include <string>

#include "base/error.h"

namespace graphpipe {

// What the command line would print; "" where nothing is wrong.
template <typename Action>
std::string input_fault(const Action& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace graphpipe

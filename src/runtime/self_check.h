// What libtorch is here: the worker's part of `graphpipe doctor`.

#pragma once

#include <string>

namespace graphpipe {

// Lines "name=value": the library's version, which BLAS is loaded and how fast it is on one
// thread, the processor's instructions that are used, the transports.
std::string self_check_text();

}  // namespace graphpipe

#include "runtime/one_dnn.h"

#include <ATen/Context.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

namespace graphpipe {
namespace {

// As in oneDNN's C interface, whose headers are not needed to build.
struct OneDnnVersion {
  int major;
  int minor;
  int patch;
};
constexpr int kFirstWrongMajor = 3;

const OneDnnVersion* one_dnn_version() {
  using Get = const OneDnnVersion* (*)();
  const auto get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "dnnl_version"));
  return get == nullptr ? nullptr : get();
}

// Whether it was left out.
bool leave_out_where_wrong() {
  const OneDnnVersion* found = one_dnn_version();
  if (found == nullptr || found->major < kFirstWrongMajor) return false;
  const char* wanted = std::getenv("GRAPHPIPE_ONEDNN");
  if (wanted != nullptr && std::string_view(wanted) == "on") return false;
  at::globalContext().setUserEnabledMkldnn(false);
  return true;
}

bool is_left_out() {
  static const bool left_out = leave_out_where_wrong();
  return left_out;
}

}  // namespace

void use_right_kernels() { is_left_out(); }

std::string one_dnn_text() {
  const OneDnnVersion* found = one_dnn_version();
  if (found == nullptr) return "";
  return fmt::format("{}.{}.{}{}", found->major, found->minor, found->patch,
                     is_left_out() ? ", not used" : "");
}

}  // namespace graphpipe

#include "fuzz/targets.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace graphpipe::fuzz {
namespace {

constexpr std::array kTargets{Target{"address", address},
                              Target{"checkpoint", checkpoint},
                              Target{"cluster", cluster},
                              Target{"cluster_argument", cluster_argument},
                              Target{"connector", connector},
                              Target{"digits", digits},
                              Target{"dnn_partitioning", dnn_partitioning},
                              Target{"fault", fault},
                              Target{"flags", flags},
                              Target{"graph", graph},
                              Target{"hostfile", hostfile},
                              Target{"job", job},
                              Target{"launch", launch},
                              Target{"listener", listener},
                              Target{"manifest", manifest},
                              Target{"message", message},
                              Target{"model_argument", model_argument},
                              Target{"movielens", movielens},
                              Target{"node_list", node_list},
                              Target{"onnx", onnx},
                              Target{"onnx_tensor", onnx_tensor},
                              Target{"pipedream", pipedream},
                              Target{"piper", piper},
                              Target{"plan", plan},
                              Target{"profile", profile},
                              Target{"safetensors", safetensors},
                              Target{"schedule", schedule},
                              Target{"status", status},
                              Target{"trace", trace},
                              Target{"worker_line", worker_line}};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target* find_target(std::string_view name) {
  const auto* const found = std::ranges::find(kTargets, name, &Target::name);
  return found == kTargets.end() ? nullptr : found;
}

bool accepts(const Target& target, std::string_view input) {
  try {
    target.run(input);
    return true;
  } catch (const InputError& error) {
    GP_CHECK(!error.message().empty(), "a refusal without a reason");
    return false;
  }
}

}  // namespace graphpipe::fuzz

#include "runtime/self_check.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "runtime/one_dnn.h"

namespace graphpipe {
namespace {

constexpr std::int64_t kSize = 512;  // of the matrices: large enough, and done in milliseconds
constexpr int kTries = 5;

// The file of the first loaded library whose name holds one of the words, links followed.
std::string loaded_library(const std::initializer_list<const char*>& words) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::string path = line.substr(slash);
    const std::string file = std::filesystem::path(path).filename();
    for (const char* word : words) {
      if (file.find(word) != std::string::npos) return path;
    }
  }
  return "not known";
}

double best_gflops() {
  at::set_num_threads(1);
  const at::Tensor a = at::ones({kSize, kSize});
  double best_s = 1e9;
  for (int i = 0; i < kTries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const at::Tensor product = at::mm(a, a);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best_s = std::min(best_s, took.count());
  }
  return 2.0 * kSize * kSize * kSize / best_s / 1e9;
}

// "AVX2" of the line "CPU capability usage: AVX2".
std::string instructions() {
  constexpr const char* kLine = "CPU capability usage: ";
  const std::string config = at::show_config();
  const std::size_t at = config.find(kLine);
  if (at == std::string::npos) return "not known";
  const std::size_t begin = at + std::string(kLine).size();
  return config.substr(begin, config.find('\n', begin) - begin);
}

}  // namespace

std::string self_check_text() {
  const std::string one_dnn = one_dnn_text();
  const double gflops = best_gflops();  // loads the BLAS
  return fmt::format(
      "libtorch={}\nBLAS={}\nBLAS speed={:.1f} GFLOP/s on one thread (a float32 product of {} by "
      "{})\ninstructions={}\n{}transports=shared memory, gloo\n",
      TORCH_VERSION, loaded_library({"openblas", "mkl", "blas"}), gflops, kSize, kSize,
      instructions(), one_dnn.empty() ? "" : fmt::format("oneDNN={}\n", one_dnn));
}

}  // namespace graphpipe

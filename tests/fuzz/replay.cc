// Runs targets over files that are there: `fuzz TARGET FILE-OR-FOLDER...`, or `fuzz all CORPUS`,
// where every target has a folder. With libFuzzer `fuzz TARGET FILE...` does so, and `fuzz TARGET`
// with its flags and folders searches, and adds what it finds to the first folder (tools/fuzz.sh).

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <string>
#include <typeinfo>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "fuzz/targets.h"

namespace graphpipe::fuzz {
namespace {

namespace fs = std::filesystem;

const Target* g_target = nullptr;

// Any exception but InputError is said, and ends the program.
bool run(const Target& target, std::string_view input) {
  try {
    return accepts(target, input);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}: {}\n", target.name, typeid(error).name(), error.what());
    std::abort();
  }
}

std::vector<std::string> files_below(const std::string& path) {
  std::vector<std::string> files;
  if (!fs::is_directory(path)) return {path};
  for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path().string());
  return files;
}

// How many of them were accepted.
int replay(const Target& target, const std::vector<std::string>& paths) {
  int files = 0;
  int accepted = 0;
  for (const std::string& path : paths) {
    for (const std::string& file : files_below(path)) {
      const std::string input = read_file(file);
      ++files;
      accepted += run(target, input) ? 1 : 0;
    }
  }
  fmt::print("{}: {} files, {} accepted\n", target.name, files, accepted);
  return files;
}

int replay_all(const std::string& corpus) {
  for (const Target& target : targets()) {
    if (replay(target, {fmt::format("{}/{}", corpus, target.name)}) > 0) continue;
    fmt::print(stderr, "{} has no files in {}\n", target.name, corpus);
    return 1;
  }
  return 0;
}

int usage() {
  fmt::print(stderr, "usage: fuzz all CORPUS, or fuzz TARGET FILE-OR-FOLDER...; targets:");
  for (const Target& target : targets()) fmt::print(stderr, " {}", target.name);
  fmt::print(stderr, "\n");
  return 2;
}

}  // namespace
}  // namespace graphpipe::fuzz

using graphpipe::fuzz::g_target;

#ifdef GP_FUZZ

namespace {

constexpr const char* kTargetVariable = "GP_FUZZ_TARGET";  // for libFuzzer's own subprocesses
constexpr double kMostCpuS = 2;                            // of an input, under sanitizers

double cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace graphpipe::fuzz;
  if (*argc == 3 && std::strcmp((*argv)[1], "all") == 0) std::exit(replay_all((*argv)[2]));
  if (*argc > 1) g_target = find_target((*argv)[1]);
  if (g_target != nullptr) {
    setenv(kTargetVariable, (*argv)[1], 1);
    (*argv)[1] = (*argv)[0];
    ++*argv;
    --*argc;
  } else if (const char* name = std::getenv(kTargetVariable)) {
    g_target = find_target(name);
  }
  if (g_target == nullptr) std::exit(usage());
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace graphpipe::fuzz;
  const double start_s = cpu_s();
  run(*g_target, {reinterpret_cast<const char*>(data), size});
  if (const double took_s = cpu_s() - start_s; took_s > kMostCpuS) {
    fmt::print(stderr, "{}: {:.1f} s for {} bytes\n", g_target->name, took_s, size);
    std::abort();
  }
  return 0;
}

#else

int main(int argc, char** argv) {
  using namespace graphpipe::fuzz;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 2 && words[0] == "all") return replay_all(words[1]);
  if (words.size() < 2 || (g_target = find_target(words[0])) == nullptr) return usage();
  replay(*g_target, {words.begin() + 1, words.end()});
  return 0;
}

#endif

#include "cli/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/Version.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

#include "base/text.h"
#include "job/hosts/remote_ranks.h"
#include "report/page.h"

namespace graphpipe {
namespace {

// Below these a run is likely to fail or to be slow.
constexpr double kLeastSharedMemoryBytes = 256e6;
constexpr double kLeastFreeMemoryBytes = 2e9;
constexpr std::int64_t kLeastFiles = 1024;
constexpr double kSlowBlasGflops = 8;  // the reference BLAS reaches 1 to 3 on a core of today

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "value" of the first line "key : value".
std::string field_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

double kilobytes(const std::string& text) { return 1024 * std::strtod(text.c_str(), nullptr); }

std::string known(const std::string& text) { return text.empty() ? "not known" : text; }

void add_machine(std::vector<Finding>& found) {
  utsname system{};
  uname(&system);
  const int cores = usable_cores();
  const auto all = static_cast<int>(std::thread::hardware_concurrency());
  found.push_back({"machine", "system",
                   fmt::format("{} {} {}", system.sysname, system.release, system.machine), ""});
  found.push_back({"machine", "processor", known(field_of("/proc/cpuinfo", "model name")), ""});
  found.push_back({"machine", "cores", fmt::format("{}", cores),
                   cores < all
                       ? fmt::format("this process may use {} of {}: see taskset, or the "
                                     "container's settings",
                                     cores, all)
                       : fmt::format("plan for local:{} at most to give each rank a core", cores)});
  const std::string quota = first_line("/sys/fs/cgroup/cpu.max");
  if (!quota.empty() && !quota.starts_with("max")) {
    std::istringstream words(quota);
    double used = 0;
    double period = 1;
    words >> used >> period;
    found.push_back({"machine", "core quota", fmt::format("{:.1f} cores", used / period),
                     "the control group holds ranks to that together"});
  }
  const double load = std::strtod(first_line("/proc/loadavg").c_str(), nullptr);
  found.push_back(
      {"machine", "load", fmt::format("{:.1f}", load),
       load > cores ? "other work competes for the cores: do not profile or measure now" : ""});
  const double free_bytes = kilobytes(field_of("/proc/meminfo", "MemAvailable"));
  found.push_back({"machine", "memory",
                   fmt::format("{} of {} free", bytes_text(free_bytes),
                               bytes_text(kilobytes(field_of("/proc/meminfo", "MemTotal")))),
                   free_bytes < kLeastFreeMemoryBytes
                       ? "little: workers of libtorch take 0.3 GiB each before the model"
                       : ""});
  const bool gpus = std::filesystem::exists("/dev/nvidiactl");
  found.push_back(
      {"machine", "GPUs", gpus ? "NVIDIA's driver is there" : "none seen",
       gpus ? "this version trains on CPUs; plans for GPUs can be made, simulated and emulated"
            : ""});
}

void add_limits(std::vector<Finding>& found) {
  struct statvfs shared {};
  if (statvfs("/dev/shm", &shared) == 0) {
    const double bytes =
        static_cast<double>(shared.f_bavail) * static_cast<double>(shared.f_frsize);
    found.push_back({"limits", "shared memory", bytes_text(bytes) + " free in /dev/shm",
                     bytes < kLeastSharedMemoryBytes
                         ? "ranks pass messages there: enlarge it (docker run --shm-size=2g), or "
                           "train with --transport gloo"
                         : ""});
  } else {
    found.push_back({"limits", "shared memory", "no /dev/shm", "train with --transport gloo"});
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const bool few =
      files.rlim_cur != RLIM_INFINITY && static_cast<std::int64_t>(files.rlim_cur) < kLeastFiles;
  found.push_back(
      {"limits", "open files",
       files.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{}", files.rlim_cur),
       few ? fmt::format("ulimit -n {}: ranks have connections to one another", kLeastFiles) : ""});
  rlimit processes{};
  getrlimit(RLIMIT_NPROC, &processes);
  found.push_back(
      {"limits", "processes",
       processes.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{}", processes.rlim_cur),
       ""});
  rlimit core{};
  getrlimit(RLIMIT_AS, &core);
  if (core.rlim_cur != RLIM_INFINITY) {
    found.push_back({"limits", "address space", bytes_text(static_cast<double>(core.rlim_cur)),
                     "libtorch maps much more than it uses: ulimit -v unlimited"});
  }
}

void add_environment(std::vector<Finding>& found) {
  const std::map<std::string, std::string> advice = {
      {"RANK", "a launcher's; train starts local ranks and does not look at it"},
      {"WORLD_SIZE", ""},
      {"LOCAL_RANK", ""},
      {"MASTER_ADDR", ""},
      {"MASTER_PORT", ""},
      {"SLURM_JOB_ID", ""},
      {"SLURM_NTASKS", ""},
      {"OMPI_COMM_WORLD_SIZE", ""},
      {"OMP_NUM_THREADS", "train gives each rank one thread, whatever this says"},
      {"OPENBLAS_NUM_THREADS", "train gives each rank one thread, whatever this says"},
      {"OPENBLAS_CORETYPE",
       "kernels chosen by hand: right where this OpenBLAS is older than the processor and chooses "
       "wrongly or crashes; if \"BLAS speed\" is higher without it, unset it. Bits differ with it, "
       "so "
       "all machines of a run need the same"},
      {"GRAPHPIPE_ONEDNN", "on: oneDNN is used also where its results are known to be wrong"},
      {"NO_COLOR", ""}};
  bool any = false;
  for (const auto& [name, text] : advice) {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) continue;
    found.push_back({"environment", name, value, text});
    any = true;
  }
  if (!any) found.push_back({"environment", "variables", "none set that matter", ""});
}

void add_program(std::vector<Finding>& found) {
  found.push_back({"program", "graphpipe", GP_VERSION, ""});
  found.push_back(
      {"program", "fmt",
       fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100),
       ""});
  found.push_back({"program", "CLI11", CLI11_VERSION, ""});
  const std::string missing = page_missing();
  found.push_back({"program", "report page", missing.empty() ? "bundled" : "missing", missing});
}

// What the command prints; "" where it fails.
std::string output_of(const std::string& command) {
  const auto close = [](FILE* file) { return file == nullptr ? 0 : pclose(file); };
  const std::unique_ptr<FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
  if (!pipe) return "";
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t n = fread(part.data(), 1, part.size(), pipe.get()))
    text.append(part.data(), n);
  return text;
}

std::string worker_advice(const std::string& name, const std::string& value) {
  if (name == "BLAS" && value.find("/blas/") != std::string::npos) {
    return "the reference BLAS: install libopenblas0-pthread, 17 times faster";
  }
  if (name == "BLAS speed" && std::strtod(value.c_str(), nullptr) < kSlowBlasGflops) {
    return "slow for a core: is it the reference BLAS, or is the machine busy?";
  }
  if (name == "oneDNN" && value.find("not used") != std::string::npos) {
    return "some of its kernels compute wrong values, so convolutions are matrix products, which "
           "may take longer; GRAPHPIPE_ONEDNN=on uses it all the same";
  }
  return "";
}

}  // namespace

std::vector<Finding> machine_findings() {
  std::vector<Finding> found;
  add_program(found);
  add_machine(found);
  add_limits(found);
  add_environment(found);
  return found;
}

std::vector<Finding> worker_findings(const std::string& worker) {
  if (worker.empty()) {
    return {{"worker", "graphpipe-worker", "not found",
             "train and profile need it: build with -DGP_RUNTIME=ON (libtorch), and keep it beside "
             "graphpipe or on PATH"}};
  }
  std::vector<Finding> found = {{"worker", "graphpipe-worker", worker, ""}};
  std::istringstream lines(output_of(shell_word(worker) + " --doctor 2>/dev/null"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = line.substr(0, equals);
    const std::string value = line.substr(equals + 1);
    found.push_back({"worker", name, value, worker_advice(name, value)});
  }
  if (found.size() == 1) {
    found[0].advice = "it does not answer: run it with --doctor to see why";
  }
  return found;
}

}  // namespace graphpipe

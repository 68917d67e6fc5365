// Runs the planners of other systems on the public inputs: a line a recorded answer, with the CPU
// seconds of the search and the share of what the original took.
//
//   rival_answers FOLDER [pipedream|piper|max-load]

#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <string>

#include "base/error.h"
#include "rivals/recorded_answers.h"
#include "rivals/rival_inputs.h"

namespace graphpipe {
namespace {

class Stopwatch {
 public:
  double cpu_s() const {
    return static_cast<double>(std::clock() - start_) / static_cast<double>(CLOCKS_PER_SEC);
  }

 private:
  std::clock_t start_ = std::clock();
};

void print_row(const std::string& what, const std::string& answer, double found, double recorded,
               double tolerance, double cpu_s, double recorded_cpu_s) {
  fmt::print("| {} | {} | {:.7g} | {:.7g} | {} | {:.3f} | {:.2f} | {:.0f} |\n", what, answer, found,
             recorded, std::abs(found - recorded) <= tolerance ? "yes" : "NO", cpu_s,
             recorded_cpu_s, recorded_cpu_s / std::max(cpu_s, 1e-3));
  std::fflush(stdout);
}

void head(const char* title, const char* unit) {
  fmt::print(
      "\n{}\n\n| input | answer | {} | recorded | agrees | CPU s | recorded CPU s | times "
      "faster |\n|---|---|---|---|---|---|---|---|\n",
      title, unit);
}

void run_pipedream(const std::string& folder) {
  head("PipeDream, variant `code`", "s per mini-batch");
  for (const RecordedPipedream& row : recorded_pipedream()) {
    const Stopwatch watch;
    const PipedreamStateSpace space =
        recorded_pipedream_states(folder + "/pipedream/" + row.profile + ".graph.txt", row.chains);
    const PipedreamPartition partition = recorded_pipedream_partition(space, row);
    std::string replicas;
    for (const PipedreamStage& stage : partition.stages) {
      replicas += fmt::format("{}{}", replicas.empty() ? "" : "-", stage.replicas);
    }
    print_row(fmt::format("{} {}", row.profile, row.label),
              fmt::format("{} states, {}", space.states.count(), replicas), partition.bottleneck_s,
              row.bottleneck_s, row.half_digit_s * 1.001, watch.cpu_s(), row.cpu_s);
  }
}

void run_piper(const std::string& folder) {
  head("Piper", "TPS (unit of the file)");
  for (const RecordedPiper& row : recorded_piper()) {
    const PiperInstance instance =
        recorded_piper_instance(folder + "/" + row.file + ".json", row.devices, row.memory_bytes,
                                row.bandwidth_bytes_per_s);
    const Stopwatch watch;
    const PiperPartition partition = partition_piper(instance, {});
    print_row(
        fmt::format("{} {:.1f} GiB, k = {}", row.file, instance.memory_bytes / 0x1p30, row.devices),
        fmt::format("{} downsets, {} stages", partition.downsets, partition.stages.size()),
        partition.tps_s, row.tps_s, 1e-3 * row.tps_s, watch.cpu_s(), row.cpu_s);
  }
}

void run_max_load(const std::string& folder) {
  head("max-load", "ms");
  for (const RecordedMaxLoad& row : recorded_max_load()) {
    const MaxLoadInstance instance =
        recorded_max_load_instance(folder + "/dnn-partitioning/" + row.file + ".json", 1e-3);
    const Stopwatch watch;
    const MaxLoadPartition partition = partition_max_load(instance, {});
    print_row(row.file, fmt::format("{} downsets, {} pairs", partition.downsets, partition.pairs),
              partition.load_s * 1e3, row.load_ms, row.half_digit_ms * 1.001, watch.cpu_s(),
              row.cpu_s);
  }
}

}  // namespace
}  // namespace graphpipe

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: rival_answers FOLDER [pipedream|piper|max-load]\n");
    return 2;
  }
  const std::string which = argc > 2 ? argv[2] : "";
  try {
    if (which.empty() || which == "pipedream") graphpipe::run_pipedream(argv[1]);
    if (which.empty() || which == "piper") graphpipe::run_piper(argv[1]);
    if (which.empty() || which == "max-load") graphpipe::run_max_load(argv[1]);
  } catch (const graphpipe::InputError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
  return 0;
}

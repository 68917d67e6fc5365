// graphpipe import FILE: an ONNX model or another planner's input, as this program's graph JSON.

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "graph/graph_json.h"
#include "graph/weights.h"
#include "models/models.h"

namespace graphpipe {
namespace {

struct ImportFlags {
  std::string file;
  std::string time_unit;
  std::string edge_unit;
  std::string output;
};

void run_import(const ImportFlags& flags, const CommandLine& line) {
  std::string model = flags.file;
  char between = ':';
  for (const auto& [key, unit] :
       {std::pair("time-unit", flags.time_unit), std::pair("edge-unit", flags.edge_unit)}) {
    if (unit.empty()) continue;
    model += fmt::format("{}{}={}", between, key, unit);
    between = ',';
  }
  const Graph graph = load_model(model);
  print_import_notes(graph);
  if (flags.output.empty()) return print_out(to_json(graph));
  write_file(flags.output, to_json(graph));
  const Weights given = given_weights(graph);
  if (!given.empty()) write_file(weights_path(flags.output), to_safetensors(given));
  if (line.json) {
    print_out(fmt::format("{{\"operators\": {}, \"tensors\": {}}}", graph.op_count(),
                          graph.tensors.size()));
  } else {
    print_out(
        fmt::format("{}: {} operators, written to {}", graph.name, graph.op_count(), flags.output));
  }
}

}  // namespace

void add_import_command(CLI::App& app, CommandLine& line) {
  CLI::App* command = app.add_subcommand(
      "import", "an ONNX model or another planner's input file, as this program's graph JSON");
  auto flags = std::make_shared<ImportFlags>();
  command
      ->add_option("FILE", flags->file,
                   "ONNX, PipeDream's graph.txt, Piper or dnn-partitioning JSON")
      ->required();
  command->add_option("--time-unit", flags->time_unit,
                      "s, ms or us: of PipeDream's (default ms) and Piper's times (default s)");
  command->add_option("--edge-unit", flags->edge_unit,
                      "s, ms or us: of dnn-partitioning's edges (default ms)");
  command->add_option("-o,--output", flags->output, "where to write it; default: standard output");
  command->callback([flags, &line] { run_import(*flags, line); });
}

}  // namespace graphpipe

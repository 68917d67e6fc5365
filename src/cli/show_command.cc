// graphpipe show MODEL: what the model is, before anything is planned.

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "base/text.h"
#include "cli/cli_json.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "graph/series_parallel.h"
#include "models/models.h"
#include "report/text_report.h"

namespace graphpipe {
namespace {

ModelSummary summarise(const Graph& graph, const SpTree& tree) {
  ModelSummary summary;
  summary.operators = static_cast<std::int64_t>(graph.op_count());
  const std::vector<bool> running = running_statistics(graph);
  for (std::size_t i = 0; i < graph.params.size(); ++i) {
    if (running[i]) continue;
    summary.parameters += element_count(graph.params[i].shape);
    summary.parameter_bytes += param_bytes(graph.params[i]);
  }
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    summary.forward_flops_per_sample += forward_flops_per_sample(graph, OpId(i));
  }
  summary.branches = branch_count(tree);
  summary.series_parallel = tree.exact;
  summary.added_order_pairs = tree.added_order;
  summary.path_stretch = tree.stretch;
  return summary;
}

std::string kinds_text(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Operator& op : graph.ops) ++counts[std::string(op_kind_name(op.kind))];
  std::string text;
  for (const auto& [kind, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  }
  return text;
}

std::string inputs_text(const Graph& graph) {
  std::string text;
  for (const TensorId id : graph.inputs) {
    const Tensor& t = graph.tensor(id);
    text += fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", t.name, dtype_name(t.dtype),
                        fmt::join(t.shape, ", "));
  }
  return text;
}

// "640 FLOP", "24 kFLOP", "215,236 MFLOP".
std::string flops_text(double flops) {
  const auto in = [flops](double unit) { return count_text(std::llround(flops / unit)); };
  if (flops < 1e4) return in(1) + " FLOP";
  return flops < 1e7 ? in(1e3) + " kFLOP" : in(1e6) + " MFLOP";
}

std::string show_text(const Graph& graph, const SpTree& tree, const ModelSummary& s) {
  std::string text = fmt::format("{}: {} operators, {} parameters ({}), {} forward per sample\n",
                                 graph.name, count_text(s.operators), count_text(s.parameters),
                                 bytes_text(static_cast<double>(s.parameter_bytes)),
                                 flops_text(s.forward_flops_per_sample));
  text += fmt::format("inputs: {}\n", inputs_text(graph));
  text += fmt::format("operators: {}\n", kinds_text(graph));
  text += fmt::format(
      "branches: {}; {}\n\n", s.branches,
      tree.exact ? "series-parallel"
                 : fmt::format("not series-parallel: planned over {}", added_order_text(tree)));
  return text + pieces_text(tree, graph, 2);
}

}  // namespace

void add_show_command(CLI::App& app, CommandLine& line) {
  CLI::App* command =
      app.add_subcommand("show", "operators, parameters, FLOPs, branches, series-parallel tree");
  auto model = std::make_shared<std::string>();
  auto full = std::make_shared<bool>(false);
  command->add_option("MODEL", *model, "a zoo name with parameters, or a file")->required();
  command->add_flag("--tree", *full, "print the whole series-parallel tree");
  command->callback([&line, model, full] {
    const Graph graph = load_model(*model);
    const SpTree tree = decompose_series_parallel(graph);
    const ModelSummary summary = summarise(graph, tree);
    if (const std::string note = sample_mixing_note(graph); !note.empty()) print_note(note);
    print_import_notes(graph);
    if (line.json) return print_out(show_json(graph, summary));
    print_out(show_text(graph, tree, summary));
    if (*full) print_out("\n" + to_text(tree, graph));
  });
}

}  // namespace graphpipe

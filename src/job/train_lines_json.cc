#include "base/json_reader.h"
#include "job/train_lines.h"

namespace graphpipe {
namespace {

Json numbers_json(const std::map<std::string, double>& numbers) {
  Json json = Json::object();
  for (const auto& [name, value] : numbers) json[name] = value;
  return json;
}

Json stage_json(const StageReport& stage) {
  return {{"stage", stage.stage},
          {"predicted_s", stage.predicted_s},
          {"measured_s", stage.measured_s},
          {"measured_wall_s", stage.measured_wall_s},
          {"predicted_peak_bytes", stage.predicted_peak_bytes},
          {"measured_peak_bytes", stage.measured_peak_bytes},
          {"bytes_sent", stage.bytes_sent}};
}

Json emulation_json(const EmulationReport& report) {
  return {{"ranks_as", report.ranks_as},
          {"stretch", report.stretch},
          {"shortest_task_s", report.shortest_task_s},
          {"wall_s", report.wall_s},
          {"late_s", report.late_s},
          {"most_late_s", report.most_late_s},
          {"bubble_fraction", report.bubble_fraction},
          {"predicted_bubble_fraction", report.predicted_bubble_fraction}};
}

}  // namespace

std::string to_json_line(const IterationLine& line) {
  return Json{{"iteration", line.iteration},
              {"epoch", line.epoch},
              {"loss", line.loss},
              {"grad_norm", line.grad_norm ? Json(*line.grad_norm) : Json(nullptr)},
              {"learning_rate", line.learning_rate},
              {"samples_per_s", line.samples_per_s}}
      .dump();
}

std::string to_json_line(const EmulatedIterationLine& line) {
  return Json{{"iteration", line.iteration},
              {"iteration_s", line.iteration_s},
              {"wall_s", line.wall_s},
              {"samples_per_s", line.samples_per_s}}
      .dump();
}

std::string to_json_line(const EvaluationLine& line) {
  return Json{{"evaluation", line.evaluation},
              {"epoch", line.epoch},
              {"validation", numbers_json(line.validation)},
              {"best", line.best},
              {"elapsed_s", line.elapsed_s}}
      .dump();
}

std::string to_json_line(const DoneLine& line) {
  Json json = {{"done", true},
               {"iterations", line.iterations},
               {"epochs", line.epochs},
               {"stopped_early", line.stopped_early},
               {"metrics", numbers_json(line.metrics)}};
  if (!line.validation.empty()) json["validation"] = numbers_json(line.validation);
  if (line.baseline_rmse) json["baseline_rmse"] = *line.baseline_rmse;
  json["elapsed_s"] = line.elapsed_s;
  json["predicted_iteration_s"] = line.predicted_iteration_s;
  json["measured_iteration_s"] = line.measured_iteration_s;
  json["executor_overhead"] = line.executor_overhead;
  json["action_s"] = line.action_s;
  json["ranks"] = line.ranks;
  json["cores"] = line.cores;
  if (line.emulation) json["emulation"] = emulation_json(*line.emulation);
  json["stages"] = Json::array();
  for (const StageReport& stage : line.stages) json["stages"].push_back(stage_json(stage));
  for (const auto& [name, value] : line.metrics) {
    if (!json.contains(name)) json[name] = value;
  }
  return json.dump();
}

}  // namespace graphpipe

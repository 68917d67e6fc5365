#include <cmath>

#include "base/error.h"
#include "base/json_reader.h"
#include "job/fields_json.h"
#include "job/train_lines.h"

namespace graphpipe {
namespace {

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

// Members of a line: what a program of another version leaves out or has as null (a number that is
// none) takes `otherwise`.
bool is_there(const JsonReader& json, const std::string& member) {
  return json.has(member) && !json[member].value().is_null();
}
double number_of(const JsonReader& json, const std::string& member, double otherwise = 0) {
  return is_there(json, member) ? json[member].number() : otherwise;
}
std::int64_t integer_of(const JsonReader& json, const std::string& member) {
  return is_there(json, member) ? json[member].integer() : 0;
}
int int_of(const JsonReader& json, const std::string& member) {
  return is_there(json, member) ? json[member].int_at_least(0) : 0;
}
bool flag_of(const JsonReader& json, const std::string& member) {
  return is_there(json, member) && json[member].boolean();
}

// The numbers of a member that is an object; none where it is not there.
std::map<std::string, double> numbers_of(const JsonReader& json, const std::string& member) {
  std::map<std::string, double> numbers;
  if (!is_there(json, member)) return numbers;
  for (const auto& [key, value] : json[member].members()) {
    if (value.value().is_number()) numbers[key] = value.number();
  }
  return numbers;
}

StageReport stage_report(const JsonReader& json) {
  StageReport stage;
  stage.stage = int_of(json, "stage");
  stage.predicted_s = number_of(json, "predicted_s");
  stage.measured_s = number_of(json, "measured_s");
  stage.predicted_peak_bytes = integer_of(json, "predicted_peak_bytes");
  stage.measured_wall_s = number_of(json, "measured_wall_s");
  stage.measured_peak_bytes = integer_of(json, "measured_peak_bytes");
  stage.bytes_sent = integer_of(json, "bytes_sent");
  return stage;
}

EmulationReport emulation_report(const JsonReader& json) {
  EmulationReport report;
  if (is_there(json, "ranks_as")) report.ranks_as = json["ranks_as"].string();
  report.stretch = number_of(json, "stretch", 1);
  report.shortest_task_s = number_of(json, "shortest_task_s");
  report.wall_s = number_of(json, "wall_s");
  report.late_s = number_of(json, "late_s");
  report.most_late_s = number_of(json, "most_late_s");
  report.bubble_fraction = number_of(json, "bubble_fraction");
  report.predicted_bubble_fraction = number_of(json, "predicted_bubble_fraction");
  return report;
}

DoneLine done_line(const JsonReader& json) {
  DoneLine done;
  done.skipped_steps = integer_of(json, "skipped_steps");
  done.iterations = integer_of(json, "iterations");
  done.epochs = number_of(json, "epochs");
  done.stopped_early = flag_of(json, "stopped_early");
  done.metrics = numbers_of(json, "metrics");
  done.validation = numbers_of(json, "validation");
  if (is_there(json, "baseline_rmse")) done.baseline_rmse = json["baseline_rmse"].number();
  done.elapsed_s = number_of(json, "elapsed_s");
  done.predicted_iteration_s = number_of(json, "predicted_iteration_s");
  done.measured_iteration_s = number_of(json, "measured_iteration_s");
  done.executor_overhead = number_of(json, "executor_overhead");
  done.action_s = number_of(json, "action_s");
  done.ranks = int_of(json, "ranks");
  done.cores = int_of(json, "cores");
  if (is_there(json, "stages")) {
    for (const JsonReader& stage : json["stages"].items()) {
      done.stages.push_back(stage_report(stage));
    }
  }
  if (is_there(json, "emulation")) done.emulation = emulation_report(json["emulation"]);
  return done;
}

EvaluationLine evaluation_line(const JsonReader& json) {
  EvaluationLine evaluation;
  evaluation.evaluation = integer_of(json, "evaluation");
  evaluation.epoch = number_of(json, "epoch");
  evaluation.elapsed_s = number_of(json, "elapsed_s");
  evaluation.best = flag_of(json, "best");
  evaluation.validation = numbers_of(json, "validation");
  return evaluation;
}

EmulatedIterationLine emulated_line(const JsonReader& json) {
  EmulatedIterationLine emulated;
  emulated.iteration = integer_of(json, "iteration");
  emulated.iteration_s = number_of(json, "iteration_s");
  emulated.wall_s = number_of(json, "wall_s");
  emulated.samples_per_s = number_of(json, "samples_per_s");
  return emulated;
}

IterationLine iteration_line(const JsonReader& json) {
  IterationLine iteration;
  iteration.iteration = integer_of(json, "iteration");
  iteration.epoch = number_of(json, "epoch");
  iteration.loss = number_of(json, "loss", std::nan(""));  // of a skipped step
  if (is_there(json, "grad_norm")) iteration.grad_norm = json["grad_norm"].number();
  iteration.learning_rate = number_of(json, "learning_rate");
  iteration.samples_per_s = number_of(json, "samples_per_s");
  iteration.skipped = flag_of(json, "skipped");
  return iteration;
}

}  // namespace

std::string to_json_line(const IterationLine& line) {
  Json json = {{"iteration", line.iteration},
               {"epoch", line.epoch},
               {"loss", line.loss},
               {"grad_norm", line.grad_norm ? Json(*line.grad_norm) : Json(nullptr)},
               {"learning_rate", line.learning_rate},
               {"samples_per_s", line.samples_per_s}};
  if (line.skipped) json["skipped"] = true;  // numbers that are none stand as null
  return json.dump();
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
               {"skipped_steps", line.skipped_steps},
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

std::string restart_line(const std::string& why, int ranks, const std::string& checkpoint) {
  const Json json = {{"restart", {{"cause", why}, {"ranks", ranks}, {"checkpoint", checkpoint}}}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

TrainLine parse_train_line(const std::string& line) {
  return read_line(line, [](const JsonReader& json) -> TrainLine {
    if (flag_of(json, "done")) return done_line(json);
    if (json.has("evaluation")) return evaluation_line(json);
    if (!json.has("iteration")) return {};
    if (json.has("wall_s")) return emulated_line(json);
    return iteration_line(json);
  });
}

}  // namespace graphpipe

#include <cmath>

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

// The numbers of a member that is an object; none where it is not there.
std::map<std::string, double> numbers_of(const Json& json, const std::string& member) {
  std::map<std::string, double> numbers;
  if (!json.contains(member)) return numbers;
  for (const auto& [key, value] : json.at(member).items()) {
    if (value.is_number()) numbers[key] = value.get<double>();
  }
  return numbers;
}

StageReport stage_report(const Json& json) {
  StageReport stage;
  stage.stage = json.value("stage", 0);
  stage.predicted_s = json.value("predicted_s", 0.0);
  stage.measured_s = json.value("measured_s", 0.0);
  stage.predicted_peak_bytes = json.value("predicted_peak_bytes", std::int64_t{0});
  stage.measured_wall_s = json.value("measured_wall_s", 0.0);
  stage.measured_peak_bytes = json.value("measured_peak_bytes", std::int64_t{0});
  stage.bytes_sent = json.value("bytes_sent", std::int64_t{0});
  return stage;
}

EmulationReport emulation_report(const Json& json) {
  EmulationReport report;
  report.ranks_as = json.value("ranks_as", "");
  report.stretch = json.value("stretch", 1.0);
  report.shortest_task_s = json.value("shortest_task_s", 0.0);
  report.wall_s = json.value("wall_s", 0.0);
  report.late_s = json.value("late_s", 0.0);
  report.most_late_s = json.value("most_late_s", 0.0);
  report.bubble_fraction = json.value("bubble_fraction", 0.0);
  report.predicted_bubble_fraction = json.value("predicted_bubble_fraction", 0.0);
  return report;
}

DoneLine done_line(const Json& json) {
  DoneLine done;
  done.skipped_steps = json.value("skipped_steps", std::int64_t{0});
  done.iterations = json.value("iterations", std::int64_t{0});
  done.epochs = json.value("epochs", 0.0);
  done.stopped_early = json.value("stopped_early", false);
  done.metrics = numbers_of(json, "metrics");
  done.validation = numbers_of(json, "validation");
  if (json.contains("baseline_rmse")) done.baseline_rmse = json.at("baseline_rmse").get<double>();
  done.elapsed_s = json.value("elapsed_s", 0.0);
  done.predicted_iteration_s = json.value("predicted_iteration_s", 0.0);
  done.measured_iteration_s = json.value("measured_iteration_s", 0.0);
  done.executor_overhead = json.value("executor_overhead", 0.0);
  done.action_s = json.value("action_s", 0.0);
  done.ranks = json.value("ranks", 0);
  done.cores = json.value("cores", 0);
  for (const Json& stage : json.value("stages", Json::array())) {
    done.stages.push_back(stage_report(stage));
  }
  if (json.contains("emulation")) done.emulation = emulation_report(json.at("emulation"));
  return done;
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
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  if (json.value("done", false)) return done_line(json);
  if (json.contains("evaluation")) {
    EvaluationLine evaluation;
    evaluation.evaluation = json.value("evaluation", std::int64_t{0});
    evaluation.epoch = json.value("epoch", 0.0);
    evaluation.elapsed_s = json.value("elapsed_s", 0.0);
    evaluation.best = json.value("best", false);
    evaluation.validation = numbers_of(json, "validation");
    return evaluation;
  }
  if (!json.contains("iteration")) return {};
  if (json.contains("wall_s")) {
    EmulatedIterationLine emulated;
    emulated.iteration = json.value("iteration", std::int64_t{0});
    emulated.iteration_s = json.value("iteration_s", 0.0);
    emulated.wall_s = json.value("wall_s", 0.0);
    emulated.samples_per_s = json.value("samples_per_s", 0.0);
    return emulated;
  }
  IterationLine iteration;
  iteration.iteration = json.value("iteration", std::int64_t{0});
  iteration.epoch = json.value("epoch", 0.0);
  const Json loss = json.value("loss", Json());
  iteration.loss = loss.is_number() ? loss.get<double>() : std::nan("");  // of a skipped step
  if (json.contains("grad_norm") && json.at("grad_norm").is_number()) {
    iteration.grad_norm = json.at("grad_norm").get<double>();
  }
  iteration.learning_rate = json.value("learning_rate", 0.0);
  iteration.samples_per_s = json.value("samples_per_s", 0.0);
  return iteration;
}

}  // namespace graphpipe

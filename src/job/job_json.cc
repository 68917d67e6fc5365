#include "job/job_json.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/json_reader.h"
#include "job/fields_json.h"

namespace graphpipe {
namespace {

constexpr int kVersion = 1;

std::string job_path(const std::string& folder) { return folder + "/job.json"; }

TransportKind read_transport(const JsonReader& json) {
  const std::string name = json.string();
  const auto kind = parse_transport(name);
  if (!kind) json.fail(fmt::format("expected auto or gloo, found \"{}\"", name));
  return *kind;
}

RateSchedule read_rate_schedule(const JsonReader& json) {
  return parse_rate_schedule(json.string(), json.where());
}

CheckpointOptions read_checkpoint(const JsonReader& json) {
  json.only({"folder", "every", "keep", "mode", "resume"});
  CheckpointOptions options;
  options.folder = json["folder"].string();
  options.every = json["every"].integer_at_least(0);
  options.keep = json["keep"].integer_at_least(0);
  const auto mode = parse_checkpoint_mode(json["mode"].string());
  if (!mode) json["mode"].fail("expected coordinated or per-stage");
  options.mode = *mode;
  options.resume = json["resume"].string();
  if (!options.folder.empty() && options.every == 0) {
    json["every"].fail("J4: expected at least 1 iteration between checkpoints, found 0");
  }
  return options;
}

Json checkpoint_json(const CheckpointOptions& options) {
  return {{"folder", options.folder},
          {"every", options.every},
          {"keep", options.keep},
          {"mode", checkpoint_mode_name(options.mode)},
          {"resume", options.resume}};
}

TrainOptions read_train(const JsonReader& json) {
  json.only({"data",       "iterations",   "epochs",        "patience",
             "eval_every", "optimizer",    "learning_rate", "learning_rate_schedule",
             "momentum",   "weight_decay", "clip",          "accumulate",
             "seed",       "floating",     "log_every",     "timeout_s",
             "transport",  "trace_path",   "save_weights",  "checkpoint",
             "on_nan",     "heartbeat_s"});
  TrainOptions options;
  options.data = json["data"].string();
  options.iterations = json["iterations"].integer_at_least(0);
  options.epochs = json["epochs"].integer_at_least(0);
  options.patience = json["patience"].integer_at_least(0);
  options.eval_every = json["eval_every"].integer_at_least(0);
  options.optimizer = read_optimizer(json["optimizer"]);
  options.learning_rate = json["learning_rate"].number_at_least(0);
  options.rate_schedule = read_rate_schedule(json["learning_rate_schedule"]);
  options.momentum = json["momentum"].number_at_least(0);
  options.weight_decay = json["weight_decay"].number_at_least(0);
  options.clip = json["clip"].number_at_least(0);
  options.accumulate = json["accumulate"].integer_at_least(1);
  options.seed = static_cast<std::uint64_t>(json["seed"].integer());
  options.floating = read_floating(json["floating"]);
  options.log_every = json["log_every"].integer_at_least(1);
  options.timeout_s = json["timeout_s"].number_at_least(0.001);
  options.transport = read_transport(json["transport"]);
  options.trace_path = json["trace_path"].string();
  options.save_weights = json["save_weights"].boolean();
  options.checkpoint = read_checkpoint(json["checkpoint"]);
  const auto on_nan = parse_on_nan(json["on_nan"].string());
  if (!on_nan) json["on_nan"].fail("expected stop or skip");
  options.on_nan = *on_nan;
  options.heartbeat_s = json["heartbeat_s"].number_at_least(0);
  if (options.iterations == 0 && options.epochs == 0 && options.patience == 0) {
    json["patience"].fail(
        "J2: a run without iterations and epochs ends when validation stops improving: "
        "expected a patience of at least 1, found 0; give iterations, epochs or patience");
  }
  return options;
}

Json train_json(const TrainOptions& options) {
  return {{"data", options.data},
          {"iterations", options.iterations},
          {"epochs", options.epochs},
          {"patience", options.patience},
          {"eval_every", options.eval_every},
          {"optimizer", optimizer_name(options.optimizer)},
          {"learning_rate", options.learning_rate},
          {"learning_rate_schedule", to_text(options.rate_schedule)},
          {"momentum", options.momentum},
          {"weight_decay", options.weight_decay},
          {"clip", options.clip},
          {"accumulate", options.accumulate},
          {"seed", static_cast<std::int64_t>(options.seed)},
          {"floating", dtype_name(options.floating)},
          {"log_every", options.log_every},
          {"timeout_s", options.timeout_s},
          {"transport", transport_name(options.transport)},
          {"trace_path", options.trace_path},
          {"save_weights", options.save_weights},
          {"checkpoint", checkpoint_json(options.checkpoint)},
          {"on_nan", on_nan_name(options.on_nan)},
          {"heartbeat_s", options.heartbeat_s}};
}

Rendezvous read_rendezvous(const JsonReader& json) {
  json.only({"way", "host", "port", "address", "token", "run"});
  Rendezvous rendezvous;
  const auto way = parse_way(json["way"].string());
  if (!way) json["way"].fail("expected folder, fixed, output or agent");
  rendezvous.way = *way;
  rendezvous.host = json["host"].string();
  rendezvous.port = static_cast<int>(json["port"].integer_between(0, 65535));
  rendezvous.address = json["address"].string();
  rendezvous.token = json["token"].string();
  rendezvous.run = json["run"].string();
  return rendezvous;
}

Json rendezvous_json(const Rendezvous& rendezvous) {
  return {{"way", way_name(rendezvous.way)}, {"host", rendezvous.host},   {"port", rendezvous.port},
          {"address", rendezvous.address},   {"token", rendezvous.token}, {"run", rendezvous.run}};
}

std::vector<std::int64_t> read_samples(const JsonReader& json) {
  std::vector<std::int64_t> samples;
  for (const JsonReader& item : json.items()) {
    samples.push_back(item.integer_at_least(samples.empty() ? 1 : samples.back() + 1));
  }
  if (samples.empty()) json.fail("J3: expected at least one sample count, found none");
  return samples;
}

void read_profile(const JsonReader& json, Job& job) {
  json.only({"samples", "repeats", "load", "cache", "fresh"});
  job.profile_samples = read_samples(json["samples"]);
  job.profile_repeats = json["repeats"].int_at_least(1);
  job.profile_load = json["load"].int_at_least(1);
  job.profile_cache = json["cache"].string();
  job.profile_fresh = json["fresh"].boolean();
}

Json profile_json(const Job& job) {
  return {{"samples", job.profile_samples},
          {"repeats", job.profile_repeats},
          {"load", job.profile_load},
          {"cache", job.profile_cache},
          {"fresh", job.profile_fresh}};
}

}  // namespace

OptimizerKind read_optimizer(const JsonReader& json) {
  const std::string name = json.string();
  for (const auto kind : {OptimizerKind::kSgd, OptimizerKind::kSgdMomentum, OptimizerKind::kAdam}) {
    if (optimizer_name(kind) == name) return kind;
  }
  json.fail(fmt::format("expected sgd, sgd-momentum or adam, found \"{}\"", name));
}

DType read_floating(const JsonReader& json) {
  const std::string name = json.string();
  const auto dtype = parse_dtype(name);
  if (!dtype || !is_floating(*dtype)) {
    json.fail(fmt::format("expected float32 or float64, found \"{}\"", name));
  }
  return *dtype;
}

Job parse_job(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  const JsonReader json(document, file);
  json.only({"format", "version", "kind", "model", "train", "profile", "rendezvous"});
  if (json["format"].string() != "graphpipe-job") {
    json["format"].fail("expected \"graphpipe-job\"");
  }
  if (json["version"].integer() != kVersion) {
    json["version"].fail(
        fmt::format("expected {}, which this program writes; build graphpipe "
                    "and graphpipe-worker from one source",
                    kVersion));
  }
  Job job;
  job.kind = json["kind"].string();
  job.model = json["model"].string();
  job.rendezvous = read_rendezvous(json["rendezvous"]);
  if (job.kind == "train" || job.kind == "emulate") {
    job.train = read_train(json["train"]);
    if (job.kind == "emulate") json["train"]["iterations"].integer_at_least(1);  // J2
  } else if (job.kind == "profile") {
    read_profile(json["profile"], job);
  } else {
    json["kind"].fail(
        fmt::format("J1: expected train, emulate or profile, found \"{}\"", job.kind));
  }
  return job;
}

std::string to_json(const Job& job) {
  Json json = {{"format", "graphpipe-job"},
               {"version", kVersion},
               {"kind", job.kind},
               {"model", job.model},
               {"rendezvous", rendezvous_json(job.rendezvous)}};
  if (job.kind == "profile") {
    json["profile"] = profile_json(job);
  } else {
    json["train"] = train_json(job.train);
  }
  return json.dump(2) + "\n";
}

Job read_job(const std::string& folder) {
  const std::string path = job_path(folder);
  Job job = parse_job(read_file(path), path);
  job.folder = folder;
  return job;
}

void write_job(const Job& job) { write_file(job_path(job.folder), to_json(job)); }

std::string to_json(const WorkerFault& fault) {
  const Json json = {{"kind", fault.kind == FaultKind::kPeerLost ? "peer_lost" : "error"},
                     {"message", fault.message},
                     {"rank", fault.rank},
                     {"host", fault.host},
                     {"at", fault.at},
                     {"iteration", fault.iteration},
                     {"stage", fault.stage},
                     {"micro_batch", fault.micro_batch},
                     {"action", fault.action},
                     {"time_s", fault.time_s},
                     {"exit_code", fault.exit_code}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

WorkerFault parse_fault(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  const JsonReader json(document, file);
  WorkerFault fault;
  fault.kind = json["kind"].string() == "peer_lost" ? FaultKind::kPeerLost : FaultKind::kError;
  fault.message = json["message"].string();
  fault.rank = json["rank"].int_at_least(0);
  if (json.has("host")) fault.host = json["host"].string();
  fault.at = json["at"].string();
  fault.iteration = json["iteration"].integer();
  fault.stage = json["stage"].int_at_least(-1);
  fault.micro_batch = json["micro_batch"].integer();
  fault.action = json["action"].string();
  fault.time_s = json["time_s"].number();
  fault.exit_code = json["exit_code"].int_at_least(0);
  return fault;
}

void write_fault(const std::string& folder, const WorkerFault& fault) {
  write_file(fault_path(folder, fault.rank), to_json(fault));
}

std::optional<WorkerFault> read_fault(const std::string& folder, int rank) {
  try {
    const std::string path = fault_path(folder, rank);
    return parse_fault(read_file(path), path);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace graphpipe

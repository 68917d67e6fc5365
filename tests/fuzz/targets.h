// What the programs read from outside, each form as a function of its bytes. A target reads, and
// where that succeeds goes on: writes and reads again, validates, builds what is built of it.
//
// A target may throw InputError and nothing else. GP_CHECK states what must hold.

#pragma once

#include <span>
#include <string_view>

namespace graphpipe::fuzz {

struct Target {
  std::string_view name;  // its corpus is tests/fuzz/corpus/NAME
  void (*run)(std::string_view input);
};

std::span<const Target> targets();
const Target* find_target(std::string_view name);  // null: there is none

// Runs it. Returns false where the input is refused; throws all else but InputError.
bool accepts(const Target& target, std::string_view input);

// graph_targets.cc
void graph(std::string_view input);
void safetensors(std::string_view input);

// model_targets.cc
void onnx(std::string_view input);
void onnx_tensor(std::string_view input);
void pipedream(std::string_view input);
void piper(std::string_view input);
void dnn_partitioning(std::string_view input);
void model_argument(std::string_view input);

// plan_targets.cc
void cluster(std::string_view input);
void cluster_argument(std::string_view input);
void profile(std::string_view input);
void plan(std::string_view input);
void schedule(std::string_view input);
void trace(std::string_view input);

// data_targets.cc
void manifest(std::string_view input);
void digits(std::string_view input);
void movielens(std::string_view input);

// job_targets.cc
void job(std::string_view input);
void fault(std::string_view input);
void checkpoint(std::string_view input);
void status(std::string_view input);
void worker_line(std::string_view input);
void hostfile(std::string_view input);
void node_list(std::string_view input);
void launch(std::string_view input);
void flags(std::string_view input);

// wire_targets.cc
void listener(std::string_view input);
void connector(std::string_view input);
void message(std::string_view input);
void address(std::string_view input);

}  // namespace graphpipe::fuzz

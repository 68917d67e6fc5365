// From the public planners' input files to what this project's planners of the same papers run
// on, so that they can be held against the recorded answers of the originals.

#pragma once

#include <string>

#include "models/dnn_partitioning_json.h"
#include "models/pipedream_profile.h"
#include "models/piper_json.h"
#include "planners/max_load/partition.h"
#include "planners/pipedream/states.h"
#include "planners/piper/partition.h"
#include "rivals/recorded_answers.h"

namespace graphpipe {

// A profile without its inputs. With `chains` operators in a row are one, named "node4,node5" (the
// profile of Inception-v3 has too many states else).
PipedreamProfile recorded_pipedream_profile(const std::string& path, bool chains = false);

// The states of PipeDream's optimiser: from the first source on.
PipedreamStateSpace pipedream_states(const PipedreamProfile& profile);
PipedreamStateSpace recorded_pipedream_states(const std::string& path, bool chains = false);

// The partition of a row's states by the variant `code`, as the row has it.
PipedreamPartition recorded_pipedream_partition(const PipedreamStateSpace& space,
                                                const RecordedPipedream& row);

// Of a Piper file, for so many devices; 0 bytes (0 bytes a second): as the file has it.
PiperInstance recorded_piper_instance(const std::string& path, int devices, double memory_bytes = 0,
                                      double bandwidth_bytes_per_s = 0);

// Of a dnn-partitioning file; edges are so many seconds a unit.
MaxLoadInstance recorded_max_load_instance(const std::string& path, double edge_seconds_per_unit);

}  // namespace graphpipe

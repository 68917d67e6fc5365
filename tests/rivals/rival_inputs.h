// From the public planners' input files to what this project's planners of the same papers run
// on, so that they can be held against the recorded answers of the originals.

#pragma once

#include <string>

#include "models/dnn_partitioning_json.h"
#include "models/pipedream_profile.h"
#include "models/piper_json.h"
#include "planners/pipedream/states.h"

namespace graphpipe {

// The states of PipeDream's optimiser: without the inputs, from the file's first source on. With
// `chains` operators in a row are one (the profile of Inception-v3 has too many states else).
PipedreamStateSpace recorded_pipedream_states(const std::string& path, bool chains = false);

}  // namespace graphpipe

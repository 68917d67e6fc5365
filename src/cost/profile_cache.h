// What was measured before, so that an operator is measured once and not once a model: one file
// a machine and load in a folder, a profile without a model.

#pragma once

#include <string>

#include "cost/profile.h"

namespace graphpipe {

// The file for profiles of this device, library, load, cores and version of this program.
std::string profile_cache_path(const std::string& folder, const Profile& machine);

// The points that the folder has of this machine's operators; `machine` without entries where
// it has none, or a file that cannot be read (which the next store replaces).
Profile load_profile_cache(const std::string& folder, const Profile& machine);

// Adds the profile's points to what the folder has; of two at the same sample count the new one
// stays. Leaves out failures, calibrations and operators of a program's own, whose code may
// change. Makes the folder where it is not there. Throws InputError where it cannot be written.
void store_profile_cache(const std::string& folder, const Profile& profile);

}  // namespace graphpipe

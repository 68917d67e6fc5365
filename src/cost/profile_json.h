// The file form of a Profile: NAME.profile.json, described in docs/formats.md.

#pragma once

#include <string>
#include <string_view>

#include "cost/profile.h"

namespace graphpipe {

Profile parse_profile(std::string_view json, const std::string& file);
std::string to_json(const Profile& profile);

}  // namespace graphpipe

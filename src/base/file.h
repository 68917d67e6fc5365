// Whole files, read and written.

#pragma once

#include <string>
#include <string_view>

namespace graphpipe {

// Throws InputError(path, ...) where the file cannot be read.
std::string read_file(const std::string& path);

// Writes to a temporary beside `path` and renames. Throws InputError(path, ...).
void write_file(const std::string& path, std::string_view text);

}  // namespace graphpipe

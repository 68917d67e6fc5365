// What shells complete and `man` shows, from the same definitions as the parser's.

#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace graphpipe {

// A completion script for "bash", "zsh" or "fish". Throws InputError for another shell.
std::string shell_completion(const CLI::App& app, const std::string& shell);

// A manual page, in roff: of the whole program, with all its commands.
std::string manual_page(const CLI::App& app);

}  // namespace graphpipe

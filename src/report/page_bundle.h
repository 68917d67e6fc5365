// The page without its data, as src/report/page/build.mjs bundles it into page_bundle.cc.

#pragma once

#include <string_view>

namespace graphpipe {

std::string_view page_template();          // "" where it could not be bundled
std::string_view page_template_missing();  // ... and why, with the remedy

}  // namespace graphpipe

// Hand-written digits, 8x8 pixels: from a table of text to a data set.
//
// E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine
// Learning Repository, 1998, as scikit-learn ships it. One sample an image, in quarters:
//
//   quadrant0 to quadrant3  float32 (16)  upper left, upper right, lower left, lower right;
//                                         4x4 pixels, row by row, 0 to 1
//   label                   int64 ()      0 to 9

#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/dataset.h"

namespace graphpipe {

// Lines of 64 pixels from 0 to 16, row by row, and the label, parted by commas. Throws
// InputError("FILE:LINE", ...).
std::unique_ptr<Dataset> parse_digits(std::string_view csv, const std::string& file);

// From a file to a folder that open_dataset() opens. Throws InputError.
void convert_digits(const std::string& csv_path, const std::string& folder);

}  // namespace graphpipe

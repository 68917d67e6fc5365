// MovieLens (small): film ratings, from a table of text to a data set.
//
// F. M. Harper and J. A. Konstan, "The MovieLens Datasets: History and Context", ACM
// TiiS 5(4), 2015. Its terms forbid passing it on, so tools/fetch_data.sh takes it out
// of a Debian package at set-up. Fields, one sample a rating (docs/movielens.md):
//
//   user    int64 ()      0, 1, ... by ascending id of the source
//   film    int64 ()      likewise
//   title   int64 (32)    codes of the title's first characters, 0 behind its end
//   genres  int64 (10)    0 to 19 by ascending name, -1 behind the last
//   year    float32 (1)   of release: (year - 1990) / 20, 0 where it is not known
//   time    float32 (4)   of the rating: its date; log days since the user's first rating;
//                         log days since the film's first; log of how many the user gave
//                         earlier on that day. Other ratings' times count, their stars
//                         never do.
//   rating  float32 ()    0.5 to 5 stars

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace graphpipe {

// Samples in the order of the file's lines. The text is tab-separated, UTF-8, with a
// first line that names the columns movieId, title, year, genres (split by "|"), userId,
// rating and timestamp (seconds since 1970), in any order; others are left out. Throws
// InputError("FILE:LINE", ...).
std::unique_ptr<Dataset> parse_movielens(std::string_view tsv, const std::string& file);

// From a file to a folder that open_dataset() opens. Throws InputError.
void convert_movielens(const std::string& tsv_path, const std::string& folder);

// 32 codes: 1 to 26 for letters (of either case, with accents or without), 27 to 36 for
// digits, 37 for a blank, 38 for what parts words (- , : ; ( ) /), 39 for all else.
std::vector<std::int64_t> title_codes(std::string_view title);

}  // namespace graphpipe

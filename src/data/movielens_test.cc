#include "data/movielens.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "data/test_folder.h"

namespace graphpipe {
namespace {

const std::string kHeader = "movieId\ttitle\tyear\tgenres\tuserId\trating\ttimestamp\n";

// Two users, three films; the second day begins at 86400.
const std::string kRatings = kHeader +
                             "31\tToy Story\t1995\tComedy|Animation\t9\t4\t86400\n"
                             "7\tHeat\tNA\tDrama\t9\t2.5\t0\n"
                             "31\tToy Story\t1995\tComedy|Animation\t2\t5\t172800\n"
                             "50\t12 Monkeys\t2000\t(no genres listed)\t9\t0.5\t86401\n";

using Numbers = std::vector<std::int64_t>;
using Floats = std::vector<float>;

std::string movielens_fault(const std::string& tsv) {
  return input_fault([&] { parse_movielens(tsv, "m.tsv"); });
}

TEST(Movielens, IdsAreDenseByAscendingIdOfTheSource) {
  const auto dataset = parse_movielens(kRatings, "m.tsv");
  EXPECT_EQ(dataset->samples(), 4);
  EXPECT_EQ(values<std::int64_t>(*dataset, "user"), Numbers({1, 1, 0, 1}));
  EXPECT_EQ(values<std::int64_t>(*dataset, "film"), Numbers({1, 0, 1, 2}));
  EXPECT_EQ(values<float>(*dataset, "rating"), Floats({4, 2.5, 5, 0.5}));
}

TEST(Movielens, GenresAreNumberedByNameAndPadded) {
  const auto dataset = parse_movielens(kRatings, "m.tsv");
  const Numbers all = values<std::int64_t>(*dataset, "genres");
  ASSERT_EQ(all.size(), 40U);
  // (no genres listed), Animation, Comedy, Drama
  EXPECT_EQ(Numbers(all.begin(), all.begin() + 4), Numbers({2, 1, -1, -1}));
  EXPECT_EQ(all[10], 3);
  EXPECT_EQ(all[30], 0);
  EXPECT_EQ(all[39], -1);
}

TEST(Movielens, AYearThatIsNotKnownIsZero) {
  const auto dataset = parse_movielens(kRatings, "m.tsv");
  EXPECT_EQ(values<float>(*dataset, "year"), Floats({0.25F, 0, 0.25F, 0.5F}));
}

TEST(Movielens, TimeFeaturesLookBack) {
  const auto dataset = parse_movielens(kRatings, "m.tsv");
  const Floats time = values<float>(*dataset, "time");
  const auto log_of = [](double x, double scale) {
    return static_cast<float>(std::log1p(x) / scale);
  };
  EXPECT_FLOAT_EQ(time[0], static_cast<float>((86400 - 1.1e9) / 2.5e8));
  // The user's first rating is a day ago, the film's is this one, today has none yet.
  EXPECT_FLOAT_EQ(time[1], log_of(1, 8));
  EXPECT_EQ(time[2], 0);
  EXPECT_EQ(time[3], 0);
  // The first of all.
  EXPECT_EQ(Floats(time.begin() + 5, time.begin() + 8), Floats({0, 0, 0}));
  // Another user: the film's first rating is a day ago.
  EXPECT_EQ(time[9], 0);
  EXPECT_FLOAT_EQ(time[10], log_of(1, 8));
  // One second after the user's first of that day.
  EXPECT_FLOAT_EQ(time[15], log_of(1, 5));
}

TEST(Movielens, TimeFeaturesDoNotDependOnTheOrderOfLines) {
  const std::string reversed = kHeader +
                               "31\tToy Story\t1995\tComedy\t2\t5\t172800\n"
                               "31\tToy Story\t1995\tComedy\t9\t4\t86400\n";
  const auto dataset = parse_movielens(reversed, "m.tsv");
  const Floats time = values<float>(*dataset, "time");
  EXPECT_FLOAT_EQ(time[2], static_cast<float>(std::log1p(1.0) / 8));
  EXPECT_EQ(time[6], 0);
}

TEST(Movielens, ColumnsMayStandInAnyOrder) {
  const auto dataset = parse_movielens(
      "rating\tx\tuserId\ttimestamp\tgenres\tyear\ttitle\tmovieId\n"
      "3\t-\t1\t5\tDrama\t1990\tHeat\t4\n",
      "m.tsv");
  EXPECT_EQ(values<float>(*dataset, "rating"), Floats({3}));
  EXPECT_EQ(values<std::int64_t>(*dataset, "title")[0], 8);
}

TEST(TitleCodes, LettersDigitsBlanksAndSigns) {
  const Numbers codes = title_codes("aZ 09-!");
  EXPECT_EQ(Numbers(codes.begin(), codes.begin() + 8), Numbers({1, 26, 37, 27, 36, 38, 39, 0}));
  EXPECT_EQ(codes.size(), 32U);
}

TEST(TitleCodes, AccentsFall) {
  EXPECT_EQ(title_codes("Léon"), title_codes("leon"));
  EXPECT_EQ(title_codes("ÅNGSTRÖM"), title_codes("angstrom"));
  EXPECT_EQ(title_codes("Le\xCC\x81on"), title_codes("leon"));  // a combining accent
}

TEST(TitleCodes, OtherScriptsAndBrokenTextAreOther) {
  EXPECT_EQ(title_codes("π"), title_codes("!"));
  EXPECT_EQ(title_codes("\xE9"), title_codes("!"));      // Latin-1
  EXPECT_EQ(title_codes("\xE1\x81"), title_codes("!"));  // cut short
}

TEST(TitleCodes, LongTitlesAreCut) { EXPECT_EQ(title_codes(std::string(40, 'b')), Numbers(32, 2)); }

TEST(Movielens, SaysWhatIsWrong) {
  EXPECT_EQ(movielens_fault(""),
            "m.tsv: no ratings; expected a line that names the columns and lines below it");
  EXPECT_EQ(movielens_fault(kHeader),
            "m.tsv: no ratings; expected a line that names the columns and lines below it");
  EXPECT_EQ(movielens_fault("movieId\ttitle\n"),
            "m.tsv:1: no column \"year\"; expected the first line to name movieId, title, year, "
            "genres, userId, rating, timestamp, parted by tabs");
  EXPECT_EQ(movielens_fault(kHeader + "31\tToy Story\n"),
            "m.tsv:2: 2 columns, expected 7 as in the first line");
  EXPECT_EQ(movielens_fault(kRatings + "1\tX\t1999\tDrama\t1\t6\t0\n"),
            "m.tsv:6: the rating is 6, expected 0.5 to 5 stars");
  EXPECT_EQ(movielens_fault(kHeader + "1\tX\t1999\ta|b|c|d|e|f|g|h|i|j|k\t1\t3\t0\n"),
            "m.tsv:2: 11 genres, expected at most 10");
  EXPECT_EQ(movielens_fault(kHeader + "1e+05\tX\t1999\tDrama\t1\t3\t0\n"),
            "m.tsv:2: expected a whole number, found \"1e+05\"");
}

TEST(Movielens, TakesAsManyGenresAsTheModelHas) {
  std::string tsv = kHeader;
  for (char c = 'a'; c <= 't'; ++c) tsv += std::string("1\tX\t1999\t") + c + "\t1\t3\t0\n";
  EXPECT_EQ(movielens_fault(tsv), "");
  EXPECT_EQ(movielens_fault(tsv + "1\tX\t1999\tu\t1\t3\t0\n"),
            "m.tsv: 21 genres, expected at most 20: a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, "
            "p, q, r, s, t, u");
}

TEST(Movielens, ConvertsToAFolder) {
  const TestFolder folder;
  write_file(folder.path() + "/raw", kRatings);
  convert_movielens(folder.path() + "/raw", folder.path() + "/movielens");
  const auto dataset = open_dataset(folder.path() + "/movielens");
  EXPECT_EQ(dataset->name(), "movielens");
  EXPECT_EQ(dataset->samples(), 4);
  EXPECT_EQ(dataset->fields().size(), 7U);
}

}  // namespace
}  // namespace graphpipe

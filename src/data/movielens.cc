#include "data/movielens.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "data/memory_dataset.h"

namespace graphpipe {
namespace {

constexpr std::size_t kMaxGenresOfAFilm = 10;
constexpr std::size_t kMaxGenres = 20;
constexpr std::int64_t kSecondsOfADay = 86400;
// These bring the features to about -1 to 1.
constexpr double kMiddleYear = 1990;
constexpr double kYears = 20;
constexpr double kMiddleTimestamp = 1.1e9;  // November 2004
constexpr double kTimestamps = 2.5e8;
constexpr double kLogDays = 8;
constexpr double kLogRatings = 5;

enum Column { kMovie, kTitle, kYear, kGenres, kUser, kRating, kTimestamp, kColumns };
constexpr std::array<std::string_view, kColumns> kColumnNames{
    "movieId", "title", "year", "genres", "userId", "rating", "timestamp"};

// The table, a vector a column.
struct Table {
  std::vector<std::int64_t> user;
  std::vector<std::int64_t> film;
  std::vector<std::string_view> title;
  std::vector<float> year;
  std::vector<std::vector<std::string>> genres;
  std::vector<float> rating;
  std::vector<std::int64_t> timestamp_s;
  std::size_t size() const { return user.size(); }
};

std::vector<std::string_view> split_line(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const std::size_t tab = line.find('\t');
    cells.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return cells;
    line.remove_prefix(tab + 1);
  }
}

// Where each column stands among the cells of a line.
std::array<std::size_t, kColumns> read_header(std::string_view line, const std::string& where) {
  const std::vector<std::string_view> cells = split_line(line);
  std::array<std::size_t, kColumns> places{};
  for (std::size_t c = 0; c < kColumns; ++c) {
    const auto found = std::find(cells.begin(), cells.end(), kColumnNames[c]);
    if (found == cells.end()) {
      throw InputError(where, fmt::format("no column \"{}\"; expected the first line to name {}, "
                                          "parted by tabs",
                                          kColumnNames[c], fmt::join(kColumnNames, ", ")));
    }
    places[c] = static_cast<std::size_t>(found - cells.begin());
  }
  return places;
}

float read_year(std::string_view text, const std::string& where) {
  if (text == "NA" || text.empty()) return 0;
  return static_cast<float>((parse_number(text, where) - kMiddleYear) / kYears);
}

float read_rating(std::string_view text, const std::string& where) {
  const double stars = parse_number(text, where);
  if (stars < 0.5 || stars > 5) {
    throw InputError(where, fmt::format("the rating is {}, expected 0.5 to 5 stars", stars));
  }
  return static_cast<float>(stars);
}

std::vector<std::string> read_genres(std::string_view text, const std::string& where) {
  std::vector<std::string> genres = split_text(text, '|');
  if (genres.size() > kMaxGenresOfAFilm) {
    throw InputError(
        where, fmt::format("{} genres, expected at most {}", genres.size(), kMaxGenresOfAFilm));
  }
  return genres;
}

Table read_table(std::string_view tsv, const std::string& file) {
  Table table;
  std::array<std::size_t, kColumns> places{};
  std::size_t columns = 0;
  for (std::size_t number = 1; !tsv.empty(); ++number) {
    const std::size_t end = tsv.find('\n');
    const std::string_view line = tsv.substr(0, end);
    tsv.remove_prefix(end == std::string_view::npos ? tsv.size() : end + 1);
    const std::string where = fmt::format("{}:{}", file, number);
    const std::vector<std::string_view> cells = split_line(line);
    if (number == 1) {
      places = read_header(line, where);
      columns = cells.size();
      continue;
    }
    if (cells.size() != columns) {
      throw InputError(where, fmt::format("{} columns, expected {} as in the first line",
                                          cells.size(), columns));
    }
    table.film.push_back(parse_integer(cells[places[kMovie]], where));
    table.title.push_back(cells[places[kTitle]]);
    table.year.push_back(read_year(cells[places[kYear]], where));
    table.genres.push_back(read_genres(cells[places[kGenres]], where));
    table.user.push_back(parse_integer(cells[places[kUser]], where));
    table.rating.push_back(read_rating(cells[places[kRating]], where));
    table.timestamp_s.push_back(parse_integer(cells[places[kTimestamp]], where));
  }
  if (table.size() == 0) {
    throw InputError(file, "no ratings; expected a line that names the columns and lines below it");
  }
  return table;
}

// 0, 1, ... by ascending id.
void make_dense(std::vector<std::int64_t>& ids) {
  std::map<std::int64_t, std::int64_t> places;
  for (const std::int64_t id : ids) places[id] = 0;
  std::int64_t next = 0;
  for (auto& [id, place] : places) place = next++;
  for (std::int64_t& id : ids) id = places[id];
}

std::vector<std::int64_t> genre_ids(const Table& table, const std::string& file) {
  std::set<std::string> names;
  for (const auto& genres : table.genres) names.insert(genres.begin(), genres.end());
  if (names.size() > kMaxGenres) {
    throw InputError(file, fmt::format("{} genres, expected at most {}: {}", names.size(),
                                       kMaxGenres, fmt::join(names, ", ")));
  }
  std::vector<std::int64_t> ids(table.size() * kMaxGenresOfAFilm, -1);
  for (std::size_t i = 0; i < table.size(); ++i) {
    for (std::size_t k = 0; k < table.genres[i].size(); ++k) {
      const auto place = std::distance(names.begin(), names.find(table.genres[i][k]));
      ids[i * kMaxGenresOfAFilm + k] = place;
    }
  }
  return ids;
}

std::vector<std::int64_t> title_ids(const Table& table) {
  std::vector<std::int64_t> all;
  for (const std::string_view title : table.title) {
    const std::vector<std::int64_t> codes = title_codes(title);
    all.insert(all.end(), codes.begin(), codes.end());
  }
  return all;
}

float log_days(std::int64_t seconds) {
  return static_cast<float>(
      std::log1p(static_cast<double>(seconds) / static_cast<double>(kSecondsOfADay)) / kLogDays);
}

// Goes through the ratings in order of time; what a rating sees lies before it.
std::vector<float> time_features(const Table& table) {
  std::vector<std::size_t> order(table.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return table.timestamp_s[a] < table.timestamp_s[b];
  });
  std::map<std::int64_t, std::int64_t> first_of_user_s;
  std::map<std::int64_t, std::int64_t> first_of_film_s;
  std::map<std::pair<std::int64_t, std::int64_t>, int> given;  // by user and day
  std::vector<float> features(table.size() * 4);
  for (const std::size_t i : order) {
    const std::int64_t now_s = table.timestamp_s[i];
    const std::int64_t user_s = first_of_user_s.emplace(table.user[i], now_s).first->second;
    const std::int64_t film_s = first_of_film_s.emplace(table.film[i], now_s).first->second;
    int& today = given[{table.user[i], now_s / kSecondsOfADay}];
    float* out = &features[i * 4];
    out[0] = static_cast<float>((static_cast<double>(now_s) - kMiddleTimestamp) / kTimestamps);
    out[1] = log_days(now_s - user_s);
    out[2] = log_days(now_s - film_s);
    out[3] = static_cast<float>(std::log1p(today) / kLogRatings);
    ++today;
  }
  return features;
}

}  // namespace

std::unique_ptr<Dataset> parse_movielens(std::string_view tsv, const std::string& file) {
  Table table = read_table(tsv, file);
  make_dense(table.user);
  make_dense(table.film);
  auto dataset =
      std::make_unique<MemoryDataset>("movielens", static_cast<std::int64_t>(table.size()));
  using Integers = std::span<const std::int64_t>;
  using Floats = std::span<const float>;
  dataset->add("user", {}, Integers(table.user));
  dataset->add("film", {}, Integers(table.film));
  dataset->add("title", {32}, Integers(title_ids(table)));
  dataset->add("genres", {kMaxGenresOfAFilm}, Integers(genre_ids(table, file)));
  dataset->add("year", {1}, Floats(table.year));
  dataset->add("time", {4}, Floats(time_features(table)));
  dataset->add("rating", {}, Floats(table.rating));
  return dataset;
}

void convert_movielens(const std::string& tsv_path, const std::string& folder) {
  write_dataset(*parse_movielens(read_file(tsv_path), tsv_path), folder);
}

}  // namespace graphpipe

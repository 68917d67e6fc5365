#include "report/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace graphpipe {

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void TextTable::add_row(std::vector<std::string> cells) {
  GP_CHECK(cells.size() == columns_.size(), "{} cells for {} columns", cells.size(),
           columns_.size());
  rows_.push_back(std::move(cells));
}

std::size_t TextTable::width(std::size_t column) const {
  std::size_t width = columns_[column].head.size();
  for (const auto& row : rows_) width = std::max(width, row[column].size());
  return width;
}

std::size_t TextTable::width_without(std::size_t column) const {
  std::size_t sum = 0;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (c != column) sum += width(c) + 2;
  }
  return sum;
}

std::string TextTable::text() const {
  std::vector<std::string> heads;
  for (const Column& column : columns_) heads.push_back(column.head);
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) line += "  ";
      line += columns_[c].align == Align::kLeft ? fmt::format("{:<{}}", cells[c], width(c))
                                                : fmt::format("{:>{}}", cells[c], width(c));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line(heads);
  for (const auto& row : rows_) add_line(row);
  return text;
}

std::string TextTable::markdown() const {
  std::string text = "|";
  for (const Column& column : columns_) text += fmt::format(" {} |", column.head);
  text += "\n|";
  for (const Column& column : columns_) text += column.align == Align::kLeft ? "---|" : "---:|";
  text += "\n";
  for (const auto& row : rows_) {
    text += "|";
    for (const std::string& cell : row) text += fmt::format(" {} |", cell);
    text += "\n";
  }
  return text;
}

std::string shortened(const std::string& text, std::size_t width) {
  if (text.size() <= width) return text;
  return fmt::format("~{}", text.substr(text.size() - width + 1));
}

std::string rank_lines(const std::vector<std::string>& of_rank) {
  std::string text;
  for (std::size_t r = 0; r < of_rank.size();) {
    std::size_t end = r + 1;
    if (of_rank.size() > kManyRows) {
      while (end < of_rank.size() && of_rank[end] == of_rank[r]) ++end;
    }
    text += end == r + 1 ? fmt::format("  rank {}: {}\n", r, of_rank[r])
                         : fmt::format("  rank {}-{}: {}\n", r, end - 1, of_rank[r]);
    r = end;
  }
  return text;
}

std::string rate_text(double per_second) {
  return per_second < 1000 ? fmt::format("{:.4g}", per_second)
                           : count_text(static_cast<std::int64_t>(std::llround(per_second)));
}

}  // namespace graphpipe

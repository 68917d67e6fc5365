// Rows of cells, aligned.

#pragma once

#include <string>
#include <vector>

namespace graphpipe {

enum class Align { kLeft, kRight };

class TextTable {
 public:
  struct Column {
    std::string head;
    Align align = Align::kRight;
  };
  explicit TextTable(std::vector<Column> columns);

  // Requires: a cell for every column.
  void add_row(std::vector<std::string> cells);

  // Columns two blanks apart, each as wide as its widest cell; no blanks at line ends.
  std::string text() const;

  // The same as a table of Markdown.
  std::string markdown() const;

  // Without the table's own text: how wide all columns but this one are together, with
  // the blanks between.
  std::size_t width_without(std::size_t column) const;

 private:
  std::size_t width(std::size_t column) const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// The text, or its end behind a "~" where it is longer than `width`.
std::string shortened(const std::string& text, std::size_t width);

// Tables of more rows than this put those that are alike together.
inline constexpr std::size_t kManyRows = 16;

// "  rank 0: TEXT" and so on; of many ranks those that follow each other and say the same as one,
// "  rank 0-63: TEXT".
std::string rank_lines(const std::vector<std::string>& of_rank);

// "1,234", "12.34": four digits where it matters.
std::string rate_text(double per_second);

}  // namespace graphpipe

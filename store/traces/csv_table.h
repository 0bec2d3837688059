#pragma once
// CsvTable is a CSV text with a header line; columns are accessed by name. A field may be quoted
// ("a, b"), and "" in a quoted field is a quote. Empty lines are skipped. Pure.
//
// Errors (usage) name the file, the line (1 is the header), the field, its value and what is
// allowed.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

class CsvTable {
 public:
  // `file` is only used in errors. Error: there is no header, or a row has fewer fields than the
  // header.
  static Result<CsvTable> parse(std::string_view text, const std::string& file);

  class Row {
   public:
    Row(const CsvTable& table, std::size_t index) : table_(table), index_(index) {}
    // Returns "" for a column that the table does not have.
    std::string_view text(std::string_view column) const;
    Result<std::string> required(std::string_view column) const;
    // Returns `otherwise` if the field is empty.
    Result<double> number(std::string_view column, double least, double most,
                          double otherwise) const;
    // The field must not be empty.
    Result<double> number(std::string_view column, double least, double most) const;
    Result<std::uint32_t> whole(std::string_view column, std::uint32_t least,
                                std::uint32_t most) const;
    Error error(std::string_view column, const std::string& allowed) const;

   private:
    const CsvTable& table_;
    std::size_t index_;
  };

  bool has(std::string_view column) const;
  const std::vector<std::string>& columns() const { return columns_; }
  std::size_t rows() const { return lines_.size(); }
  Row row(std::size_t index) const { return {*this, index}; }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::vector<std::string> columns_;
  std::vector<std::string> cells_;  // row by row
  std::vector<std::size_t> lines_;  // line number of each row
};

}  // namespace es::store

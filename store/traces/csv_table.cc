#include "store/traces/csv_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "proto/base/number_text.h"

namespace es::store {
namespace {

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    // Inside of quotes two quotation marks stand for one.
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

}  // namespace

Result<CsvTable> CsvTable::parse(std::string_view text, const std::string& file) {
  CsvTable table;
  table.file_ = file;
  std::size_t line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    std::vector<std::string> fields = split(line);
    if (table.columns_.empty()) {
      // Some programs end every line with a comma. Such empty columns at the end are left out.
      while (!fields.empty() && fields.back().empty()) fields.pop_back();
      table.columns_ = std::move(fields);
      continue;
    }
    // A line may have more fields than the header, but not fewer.
    if (fields.size() < table.columns_.size())
      return usage_error(file + ": line " + std::to_string(line_number) + ": " +
                         std::to_string(fields.size()) + " fields: allowed are the " +
                         std::to_string(table.columns_.size()) + " of the header");
    fields.resize(table.columns_.size());
    table.lines_.push_back(line_number);
    for (std::string& field : fields) table.cells_.push_back(std::move(field));
  }
  if (table.columns_.empty()) return usage_error(file + ": is empty: a header line is needed");
  return table;
}

bool CsvTable::has(std::string_view column) const {
  return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
}

std::string_view CsvTable::Row::text(std::string_view column) const {
  const auto& columns = table_.columns_;
  const auto at = std::find(columns.begin(), columns.end(), column);
  if (at == columns.end()) return {};
  return table_.cells_[index_ * columns.size() + static_cast<std::size_t>(at - columns.begin())];
}

Error CsvTable::Row::error(std::string_view column, const std::string& allowed) const {
  return usage_error(table_.file_ + ": line " + std::to_string(table_.lines_[index_]) + ": " +
                     std::string(column) + " = \"" + std::string(text(column)) + "\": allowed is " +
                     allowed);
}

Result<std::string> CsvTable::Row::required(std::string_view column) const {
  if (text(column).empty()) return error(column, "any text but none");
  return std::string(text(column));
}

Result<double> CsvTable::Row::number(std::string_view column, double least, double most) const {
  const std::string_view field = text(column);
  double value = 0;
  const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (code != std::errc() || end != field.data() + field.size() || !std::isfinite(value) ||
      value < least || value > most)
    return error(column, "a number from " + number_text(least) + " to " + number_text(most));
  return value;
}

Result<double> CsvTable::Row::number(std::string_view column, double least, double most,
                                     double otherwise) const {
  if (text(column).empty()) return otherwise;
  return number(column, least, most);
}

Result<std::uint32_t> CsvTable::Row::whole(std::string_view column, std::uint32_t least,
                                           std::uint32_t most) const {
  const std::string_view field = text(column);
  std::uint32_t value = 0;
  const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (code != std::errc() || end != field.data() + field.size() || value < least || value > most)
    return error(column,
                 "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

}  // namespace es::store

// docs/reference/model-file.md has the inputs and attributes of every kind as the table of the
// kinds has them. ES_RECORD=1 writes the attributes into the document.
#include <doctest/doctest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "gpu/import/kind.h"
#include "tests/support/places.h"

TEST_SUITE("gpu/import/documented_kinds") {
  using namespace es::gpu;

  // 100000 and 1e30, and not 1e+05 and 1e+30.
  std::string shortest(double value) {
    if (value == std::trunc(value) && std::abs(value) < 1e15)
      return std::to_string(static_cast<std::int64_t>(value));
    char digits[32];
    std::string text(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
    if (const auto plus = text.find("e+"); plus != std::string::npos) text.erase(plus + 1, 1);
    return text;
  }

  std::string type_text(const AttributeRule& rule) {
    switch (rule.type) {
      case AttributeType::kBool:
        return "bool";
      case AttributeType::kInt:
        return "int";
      case AttributeType::kInts:
        return "ints";
      case AttributeType::kFloat:
        return "float";
      case AttributeType::kFloats:
        return "floats";
      case AttributeType::kText:
        break;
    }
    std::string all;
    for (const char* one : rule.texts)
      all += (all.empty()                ? ""
              : one == rule.texts.back() ? " or "
                                         : ", ") +
             ("\"" + std::string(one) + "\"");
    return all;
  }

  // "int 0 to 7 = 1": the type, the range and the default.
  std::string rule_text(const AttributeRule& rule) {
    std::string text = type_text(rule);
    if (rule.low > -std::numeric_limits<double>::max())
      text += " " + shortest(rule.low) + " to " + shortest(rule.high);
    if (!rule.optional) return text;
    if (!rule.has_fallback) return text + "?";
    if (rule.type == AttributeType::kBool)
      return text + (rule.fallback == 0.0 ? " = false" : " = true");
    return text + " = " + shortest(rule.fallback);
  }

  std::string attributes_text(const Kind& kind) {
    std::string text;
    for (std::size_t i = 0; i < kind.attributes.size(); ++i) {
      text += (i == 0 ? "" : ", ") + std::string(kind.attributes[i].name);
      const std::string rule = rule_text(kind.attributes[i]);
      // Neighbours with one rule have it behind the last of them.
      if (i + 1 == kind.attributes.size() || rule_text(kind.attributes[i + 1]) != rule)
        text += ": " + rule;
    }
    return text;
  }

  std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, '|');) {
      const auto begin = cell.find_first_not_of(' ');
      cells.push_back(begin == std::string::npos
                          ? ""
                          : cell.substr(begin, cell.find_last_not_of(' ') + 1 - begin));
    }
    return cells;  // the first one is empty: a row begins with '|'
  }

  std::vector<std::string> quoted_names(const std::string& cell) {
    std::vector<std::string> names;
    std::istringstream in(cell);
    std::string part;
    for (bool inside = false; std::getline(in, part, '`'); inside = !inside)
      if (inside) names.push_back(part);
    return names;
  }

  // Whether the inputs stand in the cell in their order, an optional one with '?' behind its name.
  bool names_inputs(const std::string& cell, const Kind& kind) {
    if (kind.variadic) return cell == "one or more";
    std::size_t at = 0;
    for (const Slot& slot : kind.slots) {
      const std::string name = std::string(slot.name) + (slot.optional ? "?" : "");
      const auto is_word = [&](std::size_t i) {
        const auto end = i + name.size();
        return (i == 0 || cell[i - 1] == ' ') &&
               (end == cell.size() || cell[end] == ' ' || cell[end] == ',');
      };
      for (at = cell.find(name, at); at != std::string::npos && !is_word(at);)
        at = cell.find(name, at + 1);
      if (at == std::string::npos) return false;
      at += name.size();
    }
    return true;
  }

  struct Document {
    std::filesystem::path file = es::test::source_root() / "docs/reference/model-file.md";
    std::vector<std::string> lines;
    Document() {
      std::ifstream in(file);
      for (std::string line; std::getline(in, line);) lines.push_back(line);
    }
    void write() const {
      std::ofstream out(file);
      for (const std::string& line : lines) out << line << "\n";
    }
  };

  // Compares a row with the table of the kinds, and writes the attributes that they have.
  void check_row(std::string & line, const std::vector<std::string>& columns,
                 std::set<std::string>& documented) {
    std::vector<std::string> cells = cells_of(line);
    for (const std::string& name : quoted_names(cells[1])) {
      CAPTURE(name);
      const Kind* kind = find_kind(name);
      REQUIRE(kind != nullptr);
      CHECK(documented.insert(name).second);
      for (std::size_t c = 2; c < cells.size(); ++c) {
        CAPTURE(cells[c]);
        if (columns[c] == "inputs") CHECK(names_inputs(cells[c], *kind));
        if (columns[c] != "attributes") continue;
        if (std::getenv("ES_RECORD") == nullptr) CHECK(cells[c] == attributes_text(*kind));
        cells[c] = attributes_text(*kind);
      }
    }
    line = "|";
    for (std::size_t c = 1; c < cells.size(); ++c)
      line += cells[c].empty() ? " |" : " " + cells[c] + " |";
  }

  TEST_CASE("the reference has every kind with its inputs and its attributes") {
    Document document;
    REQUIRE(!document.lines.empty());
    std::set<std::string> documented;
    auto line = std::ranges::find(document.lines, "## Kinds of nodes");
    REQUIRE(line != document.lines.end());
    std::vector<std::string> columns;
    for (++line; line != document.lines.end() && !line->starts_with("## "); ++line) {
      if (line->starts_with("| kind |")) columns = cells_of(*line);
      if (line->starts_with("| `")) check_row(*line, columns, documented);
    }
    for (const std::string_view name : kind_names()) {
      CAPTURE(name);
      CHECK(documented.contains(std::string(name)));
    }
    if (std::getenv("ES_RECORD") != nullptr) document.write();
  }
}

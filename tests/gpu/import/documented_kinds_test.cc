// The tables of kinds in docs/reference/model-file.md are those of the engine. ES_RECORD=1 writes
// them into the document.
#include <doctest/doctest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

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

  std::string types_text(std::string_view types) {
    if (types.size() == 4) return "any type";
    std::string text;
    for (std::size_t i = 0; i < types.size(); ++i) {
      text += i == 0 ? "" : i + 1 == types.size() ? " or " : ", ";
      text += types[i] == 'f' ? "f32" : types[i] == 'i' ? "i32" : types[i] == 'l' ? "i64" : "bool";
    }
    return text;
  }

  // "x [...,k], mask?: f32 or bool". f32 is not named, and neighbours of one type have it behind
  // the last of them.
  std::string inputs_text(const Kind& kind) {
    std::string text;
    for (std::size_t i = 0; i < kind.slots.size(); ++i) {
      const Slot& slot = kind.slots[i];
      text += i == 0 ? "" : ", ";
      text += (kind.variadic ? "one or more " : "") + std::string(slot.name) +
              (slot.optional ? "?" : "") + (*slot.shape == 0 ? "" : " ") + slot.shape;
      const std::string types = types_text(slot.types);
      const bool is_last =
          i + 1 == kind.slots.size() || types_text(kind.slots[i + 1].types) != types;
      if (is_last && types != "f32") text += ": " + types;
    }
    return text;
  }

  std::string cell(const std::string& text) {
    return text.empty() ? " |" : " " + text + " |";
  }

  // The table of a topic. Neighbours that differ by their names only are one row.
  std::vector<std::string> table_of(const KindTopic& topic) {
    std::vector<std::string> rows{"| kind | inputs | attributes | result |",
                                  "| --- | --- | --- | --- |"};
    std::string names, last;
    const auto end_row = [&] {
      if (!names.empty()) rows.push_back("|" + cell(names) + last);
    };
    for (const Kind& kind : topic.kinds) {
      const std::string name = "`" + std::string(kind.name) + "`";
      const std::string rest =
          cell(inputs_text(kind)) + cell(attributes_text(kind)) + cell(kind.result);
      if (rest == last) {
        names += ", " + name;
        continue;
      }
      end_row();
      names = name;
      last = rest;
    }
    end_row();
    return rows;
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

  TEST_CASE("the reference has every kind with its inputs, its attributes and its result") {
    Document document;
    REQUIRE(!document.lines.empty());
    for (const KindTopic& topic : kind_topics()) {
      const std::string heading = "### " + std::string(topic.title);
      CAPTURE(heading);
      const auto title = std::ranges::find(document.lines, heading);
      REQUIRE(title != document.lines.end());
      const auto is_row = [](const std::string& line) { return line.starts_with("|"); };
      const auto begin = std::find_if(title, document.lines.end(), is_row);
      const auto end = std::find_if_not(begin, document.lines.end(), is_row);
      const std::vector<std::string> expected = table_of(topic);
      if (std::getenv("ES_RECORD") == nullptr) {
        REQUIRE(static_cast<std::size_t>(end - begin) == expected.size());
        auto row = begin;
        for (const std::string& wanted : expected) CHECK(*row++ == wanted);
        continue;
      }
      const auto at = document.lines.erase(begin, end);
      document.lines.insert(at, expected.begin(), expected.end());
    }
    if (std::getenv("ES_RECORD") != nullptr) document.write();
  }
}

#pragma once
// Regex: a regular expression in the syntax of Oniguruma, which tokenizer.json files use. PCRE2
// matches it.
//
// \s, \w and their opposites are those of Unicode in Oniguruma. Constructs that the two libraries
// read differently are refused: classes inside classes, \h, options other than (?i), and escapes of
// letters that are not listed in regex.cc. Immutable and thread-safe.
#include <memory>
#include <string_view>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

// A part of a text in bytes, and whether the pattern matches it.
struct Range {
  std::size_t begin = 0, end = 0;
  bool match = false;

  bool operator==(const Range&) const = default;
};

class Regex {
 public:
  // Error (usage): the text says what is wrong with the pattern, without naming a file.
  static Result<Regex> compile(std::string_view pattern);

  // Appends ranges that cover the text without gaps: matches, which are never empty, and what is
  // between them. Error (failure): a match needs more steps or memory than PCRE2 grants it.
  // REQUIRES: the text is UTF-8.
  Status divide(std::string_view text, std::vector<Range>& out) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}

  std::shared_ptr<const Code> code_;
};

}  // namespace es::store

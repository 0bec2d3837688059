#pragma once
// Pieces of a text, and the ways in which a pattern divides them. Pure functions.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "store/tokenizer/fields.h"
#include "store/tokenizer/regex.h"

namespace es::store {

struct Piece {
  std::string text;
  bool first = false;  // whether it begins where the whole text begins
};
using Pieces = std::vector<Piece>;

// What happens to the matches of a pattern: they are removed, are pieces of their own, belong to
// the piece before or behind them, or are joined with their neighbours that are matches too.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Appends ranges that cover a text without gaps. Error (failure): as Regex::divide.
using Divide = std::function<Status(std::string_view, std::vector<Range>&)>;

// Each character for which `test` is true is a match.
Divide by_character(bool (*test)(char32_t));
// Each occurrence of a text, which is not empty, is a match.
Divide by_text(std::string wanted);
// The field `key`: {"String": TEXT} or {"Regex": PATTERN}.
Result<Divide> read_pattern(const Fields& fields, const char* key);
// The part "Replace": puts the field "content" in the place of every match of "pattern". Error of
// the function (failure): as Regex::divide.
Result<std::function<Status(std::string&)>> read_replacement(const Fields& fields);

// `missing` is the behaviour without the field "behavior".
Result<SplitBehavior> read_behavior(const Fields& fields, std::optional<std::string> missing = {});

// Divides every piece. With `invert` the matches are what the pattern does not match. Empty pieces
// disappear.
Status split(Pieces& pieces, const Divide& divide, SplitBehavior behavior, bool invert = false);

}  // namespace es::store

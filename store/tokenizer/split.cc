#include "store/tokenizer/split.h"
#include "store/tokenizer/utf8.h"

#include <algorithm>

namespace es::store {
namespace {

using Ranges = std::vector<Range>;

Ranges joined(const Ranges& ranges) {
  Ranges out;
  for (const Range& range : ranges)
    if (!out.empty() && out.back().match == range.match)
      out.back().end = range.end;
    else
      out.push_back(range);
  return out;
}

// A match joins what is before it, unless that is a match too.
Ranges merged_with_previous(const Ranges& ranges) {
  Ranges out;
  bool after_match = false;
  for (const Range& range : ranges) {
    if (range.match && !after_match && !out.empty())
      out.back().end = range.end;
    else
      out.push_back(range);
    after_match = range.match;
  }
  return out;
}

Ranges merged_with_next(const Ranges& ranges) {
  Ranges out;
  bool before_match = false;
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
    if (range->match && !before_match && !out.empty())
      out.back().begin = range->begin;
    else
      out.push_back(*range);
    before_match = range->match;
  }
  std::ranges::reverse(out);
  return out;
}

Ranges arranged(const Ranges& ranges, SplitBehavior behavior) {
  Ranges kept;
  switch (behavior) {
    case SplitBehavior::kRemoved:
      std::ranges::copy_if(ranges, std::back_inserter(kept), std::not_fn(&Range::match));
      return kept;
    case SplitBehavior::kIsolated:
      return ranges;
    case SplitBehavior::kMergedWithPrevious:
      return merged_with_previous(ranges);
    case SplitBehavior::kMergedWithNext:
      return merged_with_next(ranges);
    case SplitBehavior::kContiguous:
      return joined(ranges);
  }
  return kept;
}

}  // namespace

Divide by_character(bool (*test)(char32_t)) {
  return [test](std::string_view text, Ranges& out) -> Status {
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (!test(next_character(text, at))) continue;
      if (begin > done) out.push_back({done, begin, false});
      out.push_back({begin, at, true});
      done = at;
    }
    if (done < text.size()) out.push_back({done, text.size(), false});
    return {};
  };
}

Divide by_text(std::string wanted) {
  return [wanted = std::move(wanted)](std::string_view text, Ranges& out) -> Status {
    std::size_t done = 0;
    for (std::size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, done)) {
      if (at > done) out.push_back({done, at, false});
      done = at + wanted.size();
      out.push_back({at, done, true});
    }
    if (done < text.size()) out.push_back({done, text.size(), false});
    return {};
  };
}

Result<Divide> read_pattern(const Fields& fields, const char* key) {
  const auto pattern = fields.object(key);
  if (!pattern) return pattern.error();
  if (pattern->find("String") != nullptr) {
    const auto text = pattern->text("String");
    if (!text) return text.error();
    if (text->empty()) return pattern->bad("String", "a text that is not empty");
    return by_text(*text);
  }
  const auto text = pattern->text("Regex");
  if (!text) return text.error();
  const auto regex = Regex::compile(*text);
  if (!regex) return pattern->bad("Regex", "a pattern " + regex.error().message);
  return Divide(
      [regex = *regex](std::string_view in, Ranges& out) { return regex.divide(in, out); });
}

Result<std::function<Status(std::string&)>> read_replacement(const Fields& fields) {
  const auto pattern = read_pattern(fields, "pattern");
  if (!pattern) return pattern.error();
  const auto content = fields.text("content");
  if (!content) return content.error();
  return std::function([divide = *pattern, content = *content](std::string& text) -> Status {
    Ranges ranges;
    ES_RETURN_IF_ERROR(divide(text, ranges));
    std::string out;
    for (const Range& range : ranges)
      out += range.match ? content : text.substr(range.begin, range.end - range.begin);
    text = std::move(out);
    return {};
  });
}

Result<SplitBehavior> read_behavior(const Fields& fields, std::optional<std::string> missing) {
  constexpr std::string_view kNames[] = {"Removed", "Isolated", "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous"};
  const auto name = fields.text("behavior", std::move(missing));
  if (!name) return name.error();
  const auto* const at = std::ranges::find(kNames, *name);
  if (at == std::end(kNames))
    return fields.bad("behavior",
                      "\"Removed\", \"Isolated\", \"MergedWithPrevious\", \"MergedWithNext\", "
                      "\"Contiguous\"");
  return static_cast<SplitBehavior>(at - std::begin(kNames));
}

Status split(Pieces& pieces, const Divide& divide, SplitBehavior behavior, bool invert) {
  Pieces out;
  Ranges ranges;
  for (const Piece& piece : pieces) {
    ranges.clear();
    ES_RETURN_IF_ERROR(divide(piece.text, ranges));
    if (invert)
      for (Range& range : ranges) range.match = !range.match;
    for (const Range& range : arranged(ranges, behavior))
      if (range.end > range.begin)
        out.push_back({piece.text.substr(range.begin, range.end - range.begin),
                       piece.first && range.begin == 0});
  }
  pieces = std::move(out);
  return {};
}

}  // namespace es::store

#include "store/tokenizer/stages.h"

#include "store/tokenizer/byte_level.h"
#include "store/tokenizer/characters.h"
#include "store/tokenizer/utf8.h"

namespace es::store {
namespace {

constexpr const char* kMetaspace = "\xe2\x96\x81";
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

PreTokenizer splitting(Divide divide, SplitBehavior behavior, bool invert = false) {
  return [divide = std::move(divide), behavior, invert](Pieces& pieces) {
    return split(pieces, divide, behavior, invert);
  };
}

void prepend(Piece& piece, const std::string& prefix) {
  if (!piece.text.starts_with(prefix)) piece.text.insert(0, prefix);
}

Result<PreTokenizer> read_byte_level(const Fields& fields) {
  const auto prefix = fields.flag("add_prefix_space");
  const auto use_regex = fields.flag("use_regex", true);
  if (!prefix) return prefix.error();
  if (!use_regex) return use_regex.error();
  const auto regex = Regex::compile(kGpt2Pattern);
  if (!regex) return regex.error();
  return PreTokenizer(
      [divide = *regex, prefix = *prefix, use_regex = *use_regex](Pieces& pieces) -> Status {
        if (prefix)
          for (Piece& piece : pieces) prepend(piece, " ");
        if (use_regex)
          ES_RETURN_IF_ERROR(split(
              pieces, [&](auto text, auto& out) { return divide.divide(text, out); },
              SplitBehavior::kIsolated));
        for (Piece& piece : pieces) piece.text = byte_level_text(piece.text);
        return {};
      });
}

Result<PreTokenizer> read_split(const Fields& fields) {
  const auto pattern = read_pattern(fields, "pattern");
  const auto behavior = read_behavior(fields);
  const auto invert = fields.flag("invert", false);
  if (!pattern) return pattern.error();
  if (!behavior) return behavior.error();
  if (!invert) return invert.error();
  return splitting(*pattern, *behavior, *invert);
}

Result<PreTokenizer> read_digits(const Fields& fields) {
  const auto individual = fields.flag("individual_digits", false);
  if (!individual) return individual.error();
  return splitting(by_character(is_any_number),
                   *individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}

Result<PreTokenizer> read_punctuation(const Fields& fields) {
  const auto behavior = read_behavior(fields, "Isolated");
  if (!behavior) return behavior.error();
  return splitting(by_character(is_any_punctuation), *behavior);
}

std::string with_replaced_spaces(const std::string& text, const std::string& replacement) {
  std::string out;
  for (const char c : text)
    if (c == ' ')
      out += replacement;
    else
      out += c;
  return out;
}

Result<PreTokenizer> read_metaspaces(const Fields& fields) {
  const auto replacement = read_metaspace(fields);
  const auto scheme = read_prepend_scheme(fields);
  const auto divided = fields.flag("split", true);
  if (!replacement) return replacement.error();
  if (!scheme) return scheme.error();
  if (!divided) return divided.error();
  return PreTokenizer([divide = by_text(*replacement), mark = *replacement, scheme = *scheme,
                       divided = *divided](Pieces& pieces) -> Status {
    for (Piece& piece : pieces) {
      piece.text = with_replaced_spaces(piece.text, mark);
      if (scheme == PrependScheme::kAlways || (scheme == PrependScheme::kFirst && piece.first))
        prepend(piece, mark);
    }
    return divided ? split(pieces, divide, SplitBehavior::kMergedWithNext) : Status();
  });
}

// Runs of word characters and runs of other characters that are not white space.
Status divide_words(std::string_view text, std::vector<Range>& out) {
  enum class Kind { kSpace, kWord, kOther };
  Kind before = Kind::kSpace;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_character(text, at);
    const Kind kind = is_word_character(c) ? Kind::kWord
                      : is_white_space(c)  ? Kind::kSpace
                                           : Kind::kOther;
    if (begin > 0 && kind == before)
      out.back().end = at;
    else
      out.push_back({begin, at, kind != Kind::kSpace});
    before = kind;
  }
  return {};
}

Result<PreTokenizer> read_part(const Fields& fields);

PreTokenizer in_turn(std::vector<PreTokenizer> steps) {
  return [steps = std::move(steps)](Pieces& pieces) -> Status {
    for (const PreTokenizer& step : steps) ES_RETURN_IF_ERROR(step(pieces));
    return {};
  };
}

Result<PreTokenizer> read_pre_tokenizers(const Fields& fields) {
  const auto parts = fields.objects("pretokenizers");
  if (!parts) return parts.error();
  std::vector<PreTokenizer> steps;
  for (const Fields& part : *parts) {
    auto step = read_part(part);
    if (!step) return step.error();
    steps.push_back(*std::move(step));
  }
  return in_turn(std::move(steps));
}

Result<PreTokenizer> read_part(const Fields& fields) {
  const auto type = fields.type({"Sequence", "ByteLevel", "Split", "Whitespace", "WhitespaceSplit",
                                 "BertPreTokenizer", "Punctuation", "Digits", "Metaspace"});
  if (!type) return type.error();
  if (*type == "Sequence") return read_pre_tokenizers(fields);
  if (*type == "ByteLevel") return read_byte_level(fields);
  if (*type == "Split") return read_split(fields);
  if (*type == "Punctuation") return read_punctuation(fields);
  if (*type == "Digits") return read_digits(fields);
  if (*type == "Metaspace") return read_metaspaces(fields);
  if (*type == "Whitespace") return splitting(divide_words, SplitBehavior::kRemoved, true);
  const PreTokenizer spaces = splitting(by_character(is_white_space), SplitBehavior::kRemoved);
  if (*type == "WhitespaceSplit") return spaces;
  return in_turn({spaces, splitting(by_character(is_any_punctuation), SplitBehavior::kIsolated)});
}

}  // namespace

Result<PreTokenizer> read_pre_tokenizer(const Fields& fields, const char* key) {
  if (fields.find(key) == nullptr) return in_turn({});
  const auto object = fields.object(key);
  return object ? read_part(*object) : Result<PreTokenizer>(object.error());
}

Result<PrependScheme> read_prepend_scheme(const Fields& fields) {
  const auto prefix = fields.flag("add_prefix_space", true);
  if (!prefix) return prefix.error();
  const auto scheme = fields.text("prepend_scheme", *prefix ? "always" : "never");
  if (!scheme) return scheme.error();
  if (*scheme == "never") return PrependScheme::kNever;
  if (*scheme == "always" && *prefix) return PrependScheme::kAlways;
  if (*scheme == "first" && *prefix) return PrependScheme::kFirst;
  return fields.bad("prepend_scheme", *prefix ? quoted_list({"always", "first", "never"})
                                              : "\"never\", because add_prefix_space is false");
}

Result<std::string> read_metaspace(const Fields& fields) {
  const auto mark = fields.text("replacement", kMetaspace);
  if (!mark) return mark.error();
  std::size_t at = 0;
  if (!mark->empty()) next_character(*mark, at);
  if (mark->empty() || at != mark->size()) return fields.bad("replacement", "one character");
  return *mark;
}

}  // namespace es::store

#include "store/tokenizer/bert_pieces.h"

#include <algorithm>
#include <span>

#include "store/tokenizer/characters.h"
#include "store/tokenizer/utf8.h"

namespace es::store {
namespace {

struct CodeRange {
  char32_t low, high;
};

// Where the versions 15 to 18 of Unicode have put marks, punctuation and control characters.
// Version 14, by which these pieces are defined, has no character in these ranges.
constexpr CodeRange kLaterCharacters[] = {
    {0x5c8, 0x5c9},     {0x897, 0x897},     {0xb53, 0xb54},     {0xece, 0xece},
    {0x1acf, 0x1af0},   {0x1b4e, 0x1b4f},   {0x1b7f, 0x1b7f},   {0x2e60, 0x2e63},
    {0x10d69, 0x10d6e}, {0x10ecb, 0x10eff}, {0x11241, 0x11241}, {0x113bb, 0x113e2},
    {0x11b00, 0x11be1}, {0x11df0, 0x11df0}, {0x11f00, 0x11f5a}, {0x13439, 0x13455},
    {0x1611e, 0x1612f}, {0x16d6d, 0x16d6f}, {0x1d127, 0x1d128}, {0x1d25b, 0x1d25c},
    {0x1e08f, 0x1e08f}, {0x1e4ec, 0x1e6f5}};
// A mark until version 15.
constexpr char32_t kFormerMark = 0x1171e;

bool is_later(char32_t c) {
  const auto* const at = std::ranges::lower_bound(kLaterCharacters, c, {}, &CodeRange::high);
  return at != std::end(kLaterCharacters) && at->low <= c;
}

bool is_space(char32_t c) {
  return c == '\t' || c == '\n' || c == '\r' || is_space_separator(c);
}

bool is_dropped(char32_t c) {
  return c == kReplacement || (is_control(c) && !is_later(c));
}

bool is_mark_of_14(char32_t c) {
  return (is_nonspacing_mark(c) && !is_later(c)) || c == kFormerMark;
}

bool is_word_of_its_own(char32_t c) {
  return is_any_punctuation(c) && !is_later(c);
}

// The library "tokenizers" leaves out U+2B820..U+2B91F, which BERT has.
bool is_ideograph(char32_t c) {
  return is_bert_ideograph(c) || (c >= 0x2b820 && c <= 0x2b91f);
}

// The character in lower case without marks; 0 for a mark.
char32_t folded_letter(char32_t c) {
  std::string lower;
  append_lower_case(c, lower);
  const std::string parts = normal_form(lower, NormalForm::kNfd);
  for (std::size_t at = 0; at < parts.size();)
    if (const char32_t part = next_character(parts, at); !is_nonspacing_mark(part)) return part;
  return 0;
}

// folded_letter() of the characters from `first` on, which is slow.
class FoldedLetters {
 public:
  FoldedLetters(char32_t first, char32_t last) : first_(first) {
    for (char32_t c = first; c <= last; ++c) letters_.push_back(folded_letter(c));
  }
  const char32_t* find(char32_t c) const {
    return c >= first_ && c - first_ < letters_.size() ? &letters_[c - first_] : nullptr;
  }

 private:
  char32_t first_;
  std::vector<char32_t> letters_;
};

// The letter for which a character stands in a word; 0 if it disappears.
char32_t folded(char32_t c) {
  static const FoldedLetters kLow(0xc0, 0x52f), kHigh(0x1e00, 0x1fff);
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
  for (const FoldedLetters* const letters : {&kLow, &kHigh})
    if (const char32_t* const letter = letters->find(c)) return *letter;
  return is_mark_of_14(c) ? 0 : c;
}

// A folded word. Its byte i came from the bytes [begins[i], ends[i]) of the source text.
struct Word {
  std::string text;
  std::vector<std::uint32_t> begins, ends;

  void add(char32_t c, std::size_t begin, std::size_t end) {
    append_character(c, text);
    begins.resize(text.size(), static_cast<std::uint32_t>(begin));
    ends.resize(text.size(), static_cast<std::uint32_t>(end));
  }
};

}  // namespace

std::vector<BertPiece> bert_pieces(const Vocabulary& vocabulary, const WordPieceRules& rules,
                                   std::string_view text) {
  std::vector<BertPiece> out;
  Word word;
  const auto end_word = [&] {
    for (const WordToken& token : divided_word(vocabulary, rules, word.text))
      out.push_back({static_cast<std::int32_t>(token.id), word.begins[token.begin],
                     word.ends[token.end - 1]});
    word = {};
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_character(text, at);
    if (is_space(c)) {
      end_word();
      continue;
    }
    if (is_dropped(c)) continue;
    const char32_t letter = folded(c);
    if (letter == 0) continue;
    const bool alone = is_word_of_its_own(letter) || is_ideograph(c);
    if (alone) end_word();
    word.add(letter, begin, at);
    if (alone) end_word();
  }
  end_word();
  return out;
}

}  // namespace es::store

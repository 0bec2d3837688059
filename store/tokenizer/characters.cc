#include "store/tokenizer/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "proto/base/check.h"
#include "store/tokenizer/utf8.h"

namespace es::store {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_between(utf8proc_category_t c, utf8proc_category_t low, utf8proc_category_t high) {
  return low <= c && c <= high;
}

constexpr bool is_ascii_letter_or_digit(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// Symbols with the property Alphabetic: letters in circles and squares.
bool is_alphabetic_symbol(char32_t c) {
  return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
         (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

// Characters below this one never change in the form, and nothing before them combines with them.
char32_t first_that_changes(NormalForm form) {
  switch (form) {
    case NormalForm::kNfc:
      return 0x300;
    case NormalForm::kNfd:
      return 0xc0;
    case NormalForm::kNfkc:
    case NormalForm::kNfkd:
      return 0xa0;
  }
  return 0;
}

bool may_change(std::string_view text, NormalForm form) {
  const char32_t bound = first_that_changes(form);
  for (std::size_t at = 0; at < text.size();)
    if (next_character(text, at) >= bound) return true;
  return false;
}

int map_options(NormalForm form) {
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  return UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
         (compatible ? UTF8PROC_COMPAT : 0);
}

}  // namespace

bool is_white_space(char32_t c) {
  return (c >= 0x9 && c <= 0xd) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool is_any_number(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return is_between(category(c), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_any_punctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7f && !is_ascii_letter_or_digit(c);
  return is_between(category(c), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_word_character(char32_t c) {
  if (c < 0x80) return is_ascii_letter_or_digit(c) || c == '_';
  const utf8proc_category_t found = category(c);
  return is_between(found, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) ||
         found == UTF8PROC_CATEGORY_PC || c == 0x200c || c == 0x200d || is_alphabetic_symbol(c);
}

bool is_mark(char32_t c) {
  return c >= 0x300 && is_between(category(c), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

bool is_nonspacing_mark(char32_t c) {
  return c >= 0x300 && category(c) == UTF8PROC_CATEGORY_MN;
}

bool is_control(char32_t c) {
  if (c < 0x80) return c < 0x20 || c == 0x7f;
  return is_between(category(c), UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF);
}

bool is_other(char32_t c) {
  return is_control(c) || category(c) == UTF8PROC_CATEGORY_CO;
}

bool is_space_separator(char32_t c) {
  return c < 0x80 ? c == ' ' : category(c) == UTF8PROC_CATEGORY_ZS;
}

bool is_bert_ideograph(char32_t c) {
  return (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x4e00 && c <= 0x9fff) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0x2f800 && c <= 0x2fa1f);
}

void append_lower_case(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  } else if (c == 0x130) {
    out += "i\xcc\x87";
  } else {
    append_character(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))),
                     out);
  }
}

std::string normal_form(std::string_view text, NormalForm form) {
  if (!may_change(text, form)) return std::string(text);
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(map_options(form)));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  ES_CHECK(bytes >= 0);  // the text is well-formed
  return {reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(bytes)};
}

std::vector<std::size_t> grapheme_ends(std::string_view text) {
  std::vector<std::size_t> ends;
  if (text.empty()) return ends;
  std::size_t at = 0;
  utf8proc_int32_t state = 0;
  auto before = static_cast<utf8proc_int32_t>(next_character(text, at));
  while (at < text.size()) {
    const std::size_t begin = at;
    const auto c = static_cast<utf8proc_int32_t>(next_character(text, at));
    if (utf8proc_grapheme_break_stateful(before, c, &state)) ends.push_back(begin);
    before = c;
  }
  ends.push_back(text.size());
  return ends;
}

}  // namespace es::store

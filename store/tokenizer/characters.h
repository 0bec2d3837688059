#pragma once
// Properties and normal forms of characters, from the tables of utf8proc (Unicode 14 or newer).
// Pure functions. Texts are UTF-8; REQUIRES: they are well-formed.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace es::store {

bool is_white_space(char32_t c);      // the property White_Space
bool is_any_number(char32_t c);       // Nd, Nl, No
bool is_any_punctuation(char32_t c);  // P*, and every ASCII sign except letters and digits
bool is_word_character(char32_t c);   // letters, marks, digits, connectors, and the joiners
bool is_mark(char32_t c);             // Mn, Mc, Me
bool is_nonspacing_mark(char32_t c);  // Mn
bool is_control(char32_t c);          // Cc, Cf
bool is_other(char32_t c);            // Cc, Cf, Co
bool is_space_separator(char32_t c);  // Zs
bool is_bert_ideograph(char32_t c);   // the ranges that BertNormalizer puts between spaces

// Appends the lower case of one character, which has two characters for U+0130.
void append_lower_case(char32_t c, std::string& out);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
std::string normal_form(std::string_view text, NormalForm form);

// The byte offsets at which the grapheme clusters of a text end.
std::vector<std::size_t> grapheme_ends(std::string_view text);

}  // namespace es::store

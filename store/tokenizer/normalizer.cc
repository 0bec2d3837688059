#include "store/tokenizer/stages.h"

#include "store/tokenizer/byte_level.h"
#include "store/tokenizer/characters.h"
#include "store/tokenizer/precompiled.h"
#include "store/tokenizer/split.h"
#include "store/tokenizer/utf8.h"

namespace es::store {
namespace {

// Calls change(c, out) for each character; it appends what replaces the character.
template <class Change>
void change_characters(std::string& text, Change change) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) change(next_character(text, at), out);
  text = std::move(out);
}

void clean_text(std::string& text) {
  change_characters(text, [](char32_t c, std::string& out) {
    if (c == '\t' || c == '\n' || c == '\r') {
      out += ' ';
    } else if (c != 0xfffd && !is_other(c)) {
      append_character(is_white_space(c) ? U' ' : c, out);
    }
  });
}

void space_ideographs(std::string& text) {
  change_characters(text, [](char32_t c, std::string& out) {
    const bool alone = is_bert_ideograph(c);
    if (alone) out += ' ';
    append_character(c, out);
    if (alone) out += ' ';
  });
}

void remove_if(std::string& text, bool (*test)(char32_t)) {
  change_characters(text, [test](char32_t c, std::string& out) {
    if (!test(c)) append_character(c, out);
  });
}

void lower_case(std::string& text) {
  change_characters(text, append_lower_case);
}

void strip(std::string& text, bool left, bool right) {
  std::size_t begin = 0, end = text.size();
  while (left && begin < end) {
    std::size_t at = begin;
    if (!is_white_space(next_character(text, at))) break;
    begin = at;
  }
  while (right && end > begin) {
    std::size_t last = end - 1;
    while ((text[last] & 0xc0) == 0x80) --last;
    std::size_t at = last;
    if (!is_white_space(next_character(text, at))) break;
    end = last;
  }
  text = text.substr(begin, end - begin);
}

template <class Change>
Normalizer always(Change change) {
  return [change](std::string& text) -> Status {
    change(text);
    return {};
  };
}

Result<Normalizer> read_bert(const Fields& fields) {
  const auto clean = fields.flag("clean_text", true);
  const auto ideographs = fields.flag("handle_chinese_chars", true);
  const auto lower = fields.flag("lowercase", true);
  if (!clean) return clean.error();
  if (!ideographs) return ideographs.error();
  if (!lower) return lower.error();
  const auto accents = fields.flag("strip_accents", *lower);
  if (!accents) return accents.error();
  return always([=, clean = *clean, ideographs = *ideographs, lower = *lower,
                 accents = *accents](std::string& text) {
    if (clean) clean_text(text);
    if (ideographs) space_ideographs(text);
    if (accents) {
      text = normal_form(text, NormalForm::kNfd);
      remove_if(text, is_nonspacing_mark);
    }
    if (lower) lower_case(text);
  });
}

Result<Normalizer> read_strip(const Fields& fields) {
  const auto left = fields.flag("strip_left", true);
  const auto right = fields.flag("strip_right", true);
  if (!left) return left.error();
  if (!right) return right.error();
  return always([left = *left, right = *right](std::string& text) { strip(text, left, right); });
}

Result<Normalizer> read_prepend(const Fields& fields) {
  const auto prefix = fields.text("prepend");
  if (!prefix) return prefix.error();
  return always([prefix = *prefix](std::string& text) {
    if (!text.empty()) text.insert(0, prefix);
  });
}

Result<Normalizer> read_precompiled(const Fields& fields) {
  const auto text = fields.text("precompiled_charsmap", "");
  if (!text) return text.error();
  if (text->empty()) return always([](std::string&) {});
  const auto bytes = base64_bytes(*text);
  const auto map = bytes ? CharacterMap::parse(*bytes) : std::nullopt;
  if (!map) return fields.bad("precompiled_charsmap", "a table of SentencePiece in Base64");
  return always([map = *map](std::string& changed) { changed = map.apply(changed); });
}

Result<Normalizer> read_object(const Fields& fields);

Result<Normalizer> read_sequence(const Fields& fields) {
  const auto parts = fields.objects("normalizers");
  if (!parts) return parts.error();
  std::vector<Normalizer> steps;
  for (const Fields& part : *parts) {
    auto step = read_object(part);
    if (!step) return step.error();
    steps.push_back(*std::move(step));
  }
  return Normalizer([steps](std::string& text) -> Status {
    for (const Normalizer& step : steps) ES_RETURN_IF_ERROR(step(text));
    return {};
  });
}

Normalizer to_form(NormalForm form) {
  return always([form](std::string& text) { text = normal_form(text, form); });
}

Result<Normalizer> read_object(const Fields& fields) {
  const auto type =
      fields.type({"Sequence", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Replace",
                   "Prepend", "Strip", "BertNormalizer", "Precompiled", "ByteLevel"});
  if (!type) return type.error();
  if (*type == "Sequence") return read_sequence(fields);
  if (*type == "NFC") return to_form(NormalForm::kNfc);
  if (*type == "NFD") return to_form(NormalForm::kNfd);
  if (*type == "NFKC") return to_form(NormalForm::kNfkc);
  if (*type == "NFKD") return to_form(NormalForm::kNfkd);
  if (*type == "Lowercase") return always(lower_case);
  if (*type == "StripAccents") return always([](std::string& text) { remove_if(text, is_mark); });
  if (*type == "Replace") return read_replacement(fields);
  if (*type == "Prepend") return read_prepend(fields);
  if (*type == "Strip") return read_strip(fields);
  if (*type == "Precompiled") return read_precompiled(fields);
  if (*type == "ByteLevel") return always([](std::string& text) { text = byte_level_text(text); });
  return read_bert(fields);
}

}  // namespace

Result<Normalizer> read_normalizer(const Fields& fields, const char* key) {
  if (fields.find(key) == nullptr) return always([](std::string&) {});
  const auto object = fields.object(key);
  return object ? read_object(*object) : Result<Normalizer>(object.error());
}

}  // namespace es::store

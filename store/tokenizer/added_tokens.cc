#include "store/tokenizer/added_tokens.h"
#include "store/tokenizer/characters.h"
#include "store/tokenizer/utf8.h"

#include <algorithm>

namespace es::store {
namespace {

// The beginning of the last character of a text, which is not empty.
std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while ((text[at] & 0xc0) == 0x80) --at;
  return at;
}

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  std::size_t at = last_character(text);
  return is_word_character(next_character(text, at));
}

bool begins_with_word(std::string_view text) {
  std::size_t at = 0;
  return !text.empty() && is_word_character(next_character(text, at));
}

// Where the white space at the end of a text begins.
std::size_t last_space(std::string_view text) {
  while (!text.empty()) {
    const std::size_t begin = last_character(text);
    std::size_t at = begin;
    if (!is_white_space(next_character(text, at))) break;
    text = text.substr(0, begin);
  }
  return text.size();
}

// Where the white space that begins at `at` ends.
std::size_t space_end(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    std::size_t next = at;
    if (!is_white_space(next_character(text, next))) break;
    at = next;
  }
  return at;
}

// The longest string of the trie that begins at `at`: its number and its end.
std::pair<std::uint32_t, std::size_t> longest(const ByteTrie& trie, std::string_view text,
                                              std::size_t at) {
  std::pair<std::uint32_t, std::size_t> best{ByteTrie::kNone, at};
  for (std::uint32_t node = ByteTrie::kRoot; at < text.size();) {
    node = trie.step(node, text[at++]);
    if (node == ByteTrie::kNone) break;
    if (trie.number(node) != ByteTrie::kNone) best = {trie.number(node), at};
  }
  return best;
}

}  // namespace

Result<AddedTokens> AddedTokens::read(const Fields& file, const Vocabulary& vocabulary,
                                      const Normalizer& normalizer) {
  AddedTokens all;
  if (file.find("added_tokens") == nullptr) return all;
  const auto list = file.objects("added_tokens");
  if (!list) return list.error();
  for (const Fields& fields : *list) ES_RETURN_IF_ERROR(all.add(fields, vocabulary, normalizer));
  return all;
}

Status AddedTokens::add(const Fields& fields, const Vocabulary& vocabulary,
                        const Normalizer& normalizer) {
  const auto id = fields.number("id", kTokenIdsMax - 1);
  const auto content = fields.text("content");
  if (!id) return id.error();
  if (!content) return content.error();
  if (content->empty()) return fields.bad("content", "a text that is not empty");
  AddedToken token{.id = static_cast<std::uint32_t>(*id), .content = *content};
  for (const auto& [key, member] :
       {std::pair{"single_word", &token.single_word}, std::pair{"lstrip", &token.lstrip},
        std::pair{"rstrip", &token.rstrip}, std::pair{"normalized", &token.normalized},
        std::pair{"special", &token.special}}) {
    const auto flag = fields.flag(key);
    if (!flag) return flag.error();
    *member = *flag;
  }
  const std::string* const other = vocabulary.token(token.id);
  if (vocabulary.find(*content).value_or(token.id) != token.id ||
      (other != nullptr && *other != *content) || !ids_.add(*content, token.id))
    return fields.bad("id", "that of this token in model.vocab, or one that no other token has");
  std::string found = *content;
  if (token.normalized) ES_RETURN_IF_ERROR(normalizer(found));
  const auto place = static_cast<std::uint32_t>(tokens_.size());
  (token.normalized ? normalized_ : raw_).add(found, place);
  places_.set(token.id, place);
  tokens_.push_back(std::move(token));
  return {};
}

std::vector<AddedPart> AddedTokens::divide(std::string_view text, bool normalized) const {
  const ByteTrie& trie = normalized ? normalized_ : raw_;
  std::vector<AddedPart> parts;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto [number, found_end] = longest(trie, text, at);
    if (number == ByteTrie::kNone) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[number];
    std::size_t begin = at, end = found_end;
    at = found_end;
    if (token.single_word &&
        (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end))))
      continue;
    if (token.lstrip) begin = std::max(last_space(text.substr(0, begin)), done);
    if (token.rstrip) end = space_end(text, end);
    if (begin > done) parts.push_back({done, begin, nullptr});
    parts.push_back({begin, end, &token});
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), nullptr});
  return parts;
}

const AddedToken* AddedTokens::find(std::uint32_t id) const {
  const std::uint32_t place = places_.find(id);
  return place == NumberMap::kNone ? nullptr : &tokens_[place];
}

}  // namespace es::store

#pragma once
// The field "added_tokens" of a tokenizer.json: tokens that are found in the text before the model
// sees it.
#include <vector>

#include "store/tokenizer/fields.h"
#include "store/tokenizer/number_map.h"
#include "store/tokenizer/stages.h"
#include "store/tokenizer/vocabulary.h"

namespace es::store {

struct AddedToken {
  std::uint32_t id = 0;
  std::string content;
  bool single_word = false;  // only between characters that are no word characters
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = false;   // is found in the normalised text
  bool special = false;      // may be left out when ids are decoded
};

// A part of a text: an added token, or text between them.
struct AddedPart {
  std::size_t begin = 0, end = 0;
  const AddedToken* token = nullptr;
};

// Immutable and thread-safe.
class AddedTokens {
 public:
  // Errors (usage): a field is not as it must be; a token whose id is another one in the model's
  // vocabulary, or the id of another token. Those of the normalizer, which changes the contents of
  // normalised tokens.
  static Result<AddedTokens> read(const Fields& file, const Vocabulary& vocabulary,
                                  const Normalizer& normalizer);

  // Divides a text at the tokens that are found before (`normalized` = false) or behind the
  // normalizer. Of several that begin at one place, the longest one counts.
  std::vector<AddedPart> divide(std::string_view text, bool normalized) const;

  const AddedToken* find(std::uint32_t id) const;
  // The ids of all tokens by their contents.
  const Vocabulary& vocabulary() const { return ids_; }

 private:
  Status add(const Fields& fields, const Vocabulary& vocabulary, const Normalizer& normalizer);

  std::vector<AddedToken> tokens_;
  Vocabulary ids_;
  NumberMap places_;           // from ids to places in tokens_
  ByteTrie raw_, normalized_;  // from contents to places in tokens_
};

}  // namespace es::store

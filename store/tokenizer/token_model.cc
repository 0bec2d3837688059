#include "store/tokenizer/token_model.h"

namespace es::store {

std::optional<std::vector<std::uint32_t>> byte_tokens(const Vocabulary& vocabulary,
                                                      std::string_view text) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::vector<std::uint32_t> ids;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const auto id =
        vocabulary.find(std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">");
    if (!id) return std::nullopt;
    ids.push_back(*id);
  }
  return ids;
}

Result<std::unique_ptr<TokenModel>> read_model(const Fields& file) {
  const auto model = file.object("model");
  if (!model) return model.error();
  const auto type = model->type({"BPE", "WordPiece", "Unigram"});
  if (!type) return type.error();
  if (*type == "BPE") return read_bpe(*model);
  return *type == "WordPiece" ? read_word_piece(*model) : read_unigram(*model);
}

Result<Vocabulary> read_vocabulary(const Fields& model) {
  const TokenizerJson* const table = model.find("vocab");
  if (table == nullptr || !table->is_object()) return model.bad("vocab", "an object");
  Vocabulary vocabulary;
  for (const auto& [token, id] : table->items()) {
    const bool in_range = id.is_number_unsigned() && id.get<std::uint64_t>() < kTokenIdsMax;
    if (!in_range || !vocabulary.add(token, id.get<std::uint32_t>()))
      return model.bad("vocab[" + TokenizerJson(token).dump() + "]", &id,
                       "an id of its own below " + std::to_string(kTokenIdsMax));
  }
  return vocabulary;
}

Result<std::optional<std::uint32_t>> read_named_token(const Fields& model, const char* key,
                                                      const Vocabulary& vocabulary) {
  if (model.find(key) == nullptr) return std::optional<std::uint32_t>();
  const auto name = model.text(key);
  if (!name) return name.error();
  const auto id = vocabulary.find(*name);
  return id ? Result<std::optional<std::uint32_t>>(id)
            : model.bad(key, "a token of model.vocab, or null");
}

}  // namespace es::store

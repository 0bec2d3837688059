#pragma once
// The file data.vocabulary_file of SQuAD: the vocabulary of an uncased model of BERT.
#include <filesystem>

#include "proto/base/result.h"
#include "store/tokenizer/bert_pieces.h"

namespace es::store {

inline constexpr std::size_t kVocabularyMax = 10'000'000;

// Immutable, thread-safe.
class BertVocabulary {
 public:
  // Reads one token per line, numbered from 0. Errors: not found; usage, with the line: an empty
  // line, a repeated token, bytes that are not UTF-8, or no [PAD], [UNK], [CLS] or [SEP].
  static Result<BertVocabulary> read(const std::filesystem::path& file);
  BertVocabulary(BertVocabulary&&) noexcept;
  BertVocabulary& operator=(BertVocabulary&&) noexcept;
  ~BertVocabulary();

  std::uint32_t size() const { return tokens_.size(); }
  std::int32_t pad() const { return static_cast<std::int32_t>(pad_); }
  std::int32_t cls() const { return static_cast<std::int32_t>(cls_); }
  std::int32_t sep() const { return static_cast<std::int32_t>(sep_); }

  // REQUIRES: text.size() < 2^32.
  std::vector<BertPiece> pieces(std::string_view text) const {
    return bert_pieces(tokens_, rules_, text);
  }

 private:
  BertVocabulary() = default;
  Status find_special(const std::string& file);

  Vocabulary tokens_;
  WordPieceRules rules_;
  std::uint32_t pad_ = 0, cls_ = 0, sep_ = 0;
};

}  // namespace es::store

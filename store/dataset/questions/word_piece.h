#pragma once
// WordPiece converts text to the numbers of a vocabulary, like the uncased models of BERT (Devlin
// et al. 2019).
//
// Control characters are dropped. The text is divided at spaces, and every punctuation sign and
// every Chinese character is a word of its own. Letters are converted to lower case without accents
// (unicode.h lists the alphabets). A word becomes the longest piece of the vocabulary with which it
// begins, then the longest piece "##..." with which its rest begins, and so on. A word that cannot
// be divided in this way, or has more than 100 characters, becomes [UNK].
//
// Immutable, thread-safe.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

inline constexpr std::size_t kVocabularyMax = 10'000'000;

struct Piece {
  std::int32_t id = 0;
  std::uint32_t begin = 0;  // bytes [begin, end) of the text
  std::uint32_t end = 0;
  bool operator==(const Piece&) const = default;
};

class WordPiece {
 public:
  // Reads a vocabulary: one piece per line, numbered from 0. Errors: not found; usage, with the
  // line: an empty line, a repeated piece, bytes that are not UTF-8, or no [PAD], [UNK], [CLS] or
  // [SEP].
  static Result<WordPiece> read(const std::filesystem::path& file);
  WordPiece(WordPiece&&) noexcept;
  WordPiece& operator=(WordPiece&&) noexcept;
  ~WordPiece();

  std::uint32_t size() const { return size_; }
  std::int32_t pad() const { return pad_; }
  std::int32_t unknown() const { return unknown_; }
  std::int32_t cls() const { return cls_; }
  std::int32_t sep() const { return sep_; }

  // REQUIRES: text.size() < 2^32.
  std::vector<Piece> pieces(std::string_view text) const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  struct Word;
  using Ids = std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>>;

  WordPiece() = default;
  Status find_special(const std::string& file);
  void divide(const Word& word, std::vector<Piece>& out) const;
  bool add_longest(const Word& word, std::size_t& from, std::vector<Piece>& out) const;

  Ids ids_;
  std::uint32_t size_ = 0;
  std::int32_t pad_ = 0, unknown_ = 0, cls_ = 0, sep_ = 0;
};

}  // namespace es::store

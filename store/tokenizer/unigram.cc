// Unigram: of all ways to divide a piece into tokens, the one with the largest sum of scores.
#include <algorithm>
#include <limits>

#include "store/tokenizer/number_map.h"
#include "store/tokenizer/token_model.h"
#include "store/tokenizer/utf8.h"

namespace es::store {
namespace {

// An unknown character scores this much less than the worst token.
constexpr double kUnknownPenalty = 10;

struct UnigramTable {
  std::vector<double> scores;  // by id
  std::optional<std::uint32_t> unknown;
  bool byte_fallback = false;
};

// The best way to divide a piece up to a byte: the last token and where it begins.
struct BestEnd {
  double score = 0;
  std::size_t begin = 0;
  std::uint32_t id = ByteTrie::kNone;  // kNone: no way was found yet

  void improve(double other_score, std::size_t other_begin, std::uint32_t other_id) {
    if (id != ByteTrie::kNone && other_score <= score) return;
    *this = {other_score, other_begin, other_id};
  }
};

class Unigram final : public TokenModel {
 public:
  Unigram(Vocabulary vocabulary, UnigramTable table)
      : TokenModel(std::move(vocabulary)),
        table_(std::move(table)),
        unknown_score_(*std::ranges::min_element(table_.scores) - kUnknownPenalty) {
    for (std::uint32_t id = 0; id < this->vocabulary().size(); ++id)
      trie_.add(*this->vocabulary().token(id), id);
  }

  Status encode(std::string_view piece, std::vector<std::uint32_t>& ids) const override {
    auto best = best_ends(piece);
    if (!best) return best.error();
    // From the end to the beginning; unknown tokens in a row are one.
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    bool after_unknown = false;
    for (std::size_t end = piece.size(); end > 0;) {
      const BestEnd& last = (*best)[end];
      const bool unknown = last.id == table_.unknown;
      if (unknown && after_unknown)
        parts.back().first = last.begin;
      else
        parts.emplace_back(last.begin, end);
      after_unknown = unknown;
      end = last.begin;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      append(piece.substr(part->first, part->second - part->first), ids);
    return {};
  }

 private:
  Result<std::vector<BestEnd>> best_ends(std::string_view piece) const {
    std::vector<BestEnd> best(piece.size() + 1);
    for (std::size_t begin = 0; begin < piece.size();) {
      const double score = best[begin].score;
      std::size_t next = begin;
      next_character(piece, next);
      std::uint32_t node = ByteTrie::kRoot;
      bool has_character = false;
      for (std::size_t at = begin; at < piece.size(); ++at) {
        node = trie_.step(node, piece[at]);
        if (node == ByteTrie::kNone) break;
        const std::uint32_t id = trie_.number(node);
        if (id == ByteTrie::kNone) continue;
        best[at + 1].improve(score + table_.scores[id], begin, id);
        has_character = has_character || at + 1 == next;
      }
      if (!has_character) {
        if (!table_.unknown)
          return failure("a character is in no token, and model.unk_id names none for it");
        best[next].improve(score + unknown_score_, begin, *table_.unknown);
      }
      begin = next;
    }
    return best;
  }

  // REQUIRES: the text is a token, or there is an unknown one.
  void append(std::string_view text, std::vector<std::uint32_t>& ids) const {
    if (const auto id = vocabulary().find(text)) return ids.push_back(*id);
    const auto bytes = table_.byte_fallback ? byte_tokens(vocabulary(), text) : std::nullopt;
    if (!bytes) return ids.push_back(*table_.unknown);
    ids.insert(ids.end(), bytes->begin(), bytes->end());
  }

  UnigramTable table_;
  double unknown_score_;
  ByteTrie trie_;
};

}  // namespace

Result<std::unique_ptr<TokenModel>> read_unigram(const Fields& model) {
  const TokenizerJson* const list = model.find("vocab");
  if (list == nullptr || !list->is_array() || list->empty() || list->size() > kTokenIdsMax)
    return model.bad("vocab",
                     "a list of 1 to " + std::to_string(kTokenIdsMax) + " tokens and scores");
  Vocabulary vocabulary;
  UnigramTable table;
  for (const TokenizerJson& item : *list) {
    const auto id = static_cast<std::uint32_t>(table.scores.size());
    const bool is_pair =
        item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_number();
    if (!is_pair || !vocabulary.add(item[0].get<std::string>(), id))
      return model.bad("vocab[" + std::to_string(id) + "]", &item,
                       "[TOKEN, SCORE] with a token that no earlier entry has");
    table.scores.push_back(item[1].get<double>());
  }
  if (model.find("unk_id") != nullptr) {
    const auto unknown = model.number("unk_id", table.scores.size() - 1);
    if (!unknown) return unknown.error();
    table.unknown = static_cast<std::uint32_t>(*unknown);
  }
  const auto fallback = model.flag("byte_fallback", false);
  if (!fallback) return fallback.error();
  table.byte_fallback = *fallback;
  return std::unique_ptr<TokenModel>(
      std::make_unique<Unigram>(std::move(vocabulary), std::move(table)));
}

}  // namespace es::store

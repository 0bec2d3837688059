// Byte pair encoding: a piece begins as its characters, and neighbours are merged in the order of
// the list "merges" until no more merge applies.
#include <queue>

#include "store/tokenizer/number_map.h"
#include "store/tokenizer/token_model.h"
#include "store/tokenizer/utf8.h"

namespace es::store {
namespace {

constexpr std::int32_t kEnd = -1;

struct BpeOptions {
  std::string prefix;  // before every character of a piece but the first one
  std::string suffix;  // behind the last character of a piece
  std::optional<std::uint32_t> unknown;
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
};

struct Merge {
  std::uint32_t rank = 0;  // the smallest one is carried out first
  std::uint32_t id = 0;    // of the token that results
};

class MergeTable {
 public:
  // A pair that is there gets the new merge.
  void set(std::uint32_t left, std::uint32_t right, Merge merge) {
    numbers_.set(key(left, right), static_cast<std::uint32_t>(merges_.size()));
    merges_.push_back(merge);
  }
  const Merge* find(std::uint32_t left, std::uint32_t right) const {
    const std::uint32_t at = numbers_.find(key(left, right));
    return at == NumberMap::kNone ? nullptr : &merges_[at];
  }

 private:
  static std::uint64_t key(std::uint32_t left, std::uint32_t right) {
    return std::uint64_t{left} << 32 | right;
  }
  NumberMap numbers_;
  std::vector<Merge> merges_;
};

// A token of a piece in a linked list. A token that was merged into the one before it is gone.
struct Symbol {
  std::uint32_t id = 0;
  std::int32_t before = kEnd, after = kEnd;
  bool gone = false;
};

// The symbols of one piece, and the merges that are possible.
class MergedPiece {
 public:
  MergedPiece(const MergeTable& table, const std::vector<std::uint32_t>& ids) : table_(table) {
    const auto count = static_cast<std::int32_t>(ids.size());
    for (std::int32_t i = 0; i < count; ++i)
      symbols_.push_back({ids[static_cast<std::size_t>(i)], i - 1, i + 1 == count ? kEnd : i + 1});
    for (std::int32_t i = 0; i + 1 < count; ++i) offer(i);
  }

  void merge_all() {
    while (!offers_.empty()) {
      const Offer best = offers_.top();
      offers_.pop();
      if (still_holds(best)) merge(best);
    }
  }
  void append_to(std::vector<std::uint32_t>& ids) const {
    for (std::int32_t i = symbols_.empty() ? kEnd : 0; i != kEnd; i = at(i).after)
      ids.push_back(at(i).id);
  }

 private:
  struct Offer {
    std::uint32_t rank = 0;
    std::int32_t left = 0;
    std::uint32_t id = 0;
    // The queue has the largest element on top: the smallest rank, and of equal ones the first.
    bool operator<(const Offer& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };

  const Symbol& at(std::int32_t i) const { return symbols_[static_cast<std::size_t>(i)]; }
  Symbol& at(std::int32_t i) { return symbols_[static_cast<std::size_t>(i)]; }

  void offer(std::int32_t left) {
    if (left == kEnd || at(left).after == kEnd) return;
    if (const Merge* const merge = table_.find(at(left).id, at(at(left).after).id))
      offers_.push({merge->rank, left, merge->id});
  }
  // Other merges may have changed the two symbols since the offer was made.
  bool still_holds(const Offer& offer) const {
    const Symbol& left = at(offer.left);
    if (left.gone || left.after == kEnd) return false;
    const Merge* const merge = table_.find(left.id, at(left.after).id);
    return merge != nullptr && merge->id == offer.id;
  }
  void merge(const Offer& offer) {
    Symbol& left = at(offer.left);
    Symbol& right = at(left.after);
    left.id = offer.id;
    left.after = right.after;
    right.gone = true;
    if (left.after != kEnd) at(left.after).before = offer.left;
    this->offer(left.before);
    this->offer(offer.left);
  }

  const MergeTable& table_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Offer> offers_;
};

class Bpe final : public TokenModel {
 public:
  Bpe(Vocabulary vocabulary, MergeTable merges, BpeOptions options)
      : TokenModel(std::move(vocabulary)),
        merges_(std::move(merges)),
        options_(std::move(options)) {}

  Status encode(std::string_view piece, std::vector<std::uint32_t>& ids) const override {
    if (options_.ignore_merges)
      if (const auto whole = vocabulary().find(piece)) {
        ids.push_back(*whole);
        return {};
      }
    MergedPiece merged(merges_, characters(piece));
    merged.merge_all();
    merged.append_to(ids);
    return {};
  }

 private:
  // The tokens of the single characters. One without a token becomes its bytes, or the unknown
  // token, which waits until the next known character if several may become one.
  std::vector<std::uint32_t> characters(std::string_view piece) const {
    std::vector<std::uint32_t> ids;
    bool waiting = false;
    std::string decorated;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      next_character(piece, at);
      const std::string_view symbol = decorate(piece, begin, at, decorated);
      if (const auto id = vocabulary().find(symbol)) {
        if (waiting) ids.push_back(*options_.unknown);
        waiting = false;
        ids.push_back(*id);
        continue;
      }
      const auto bytes = options_.byte_fallback ? byte_tokens(vocabulary(), symbol) : std::nullopt;
      if (bytes) {
        ids.insert(ids.end(), bytes->begin(), bytes->end());
      } else if (options_.unknown) {
        if (waiting && !options_.fuse_unknown) ids.push_back(*options_.unknown);
        waiting = true;
      }
    }
    if (waiting) ids.push_back(*options_.unknown);
    return ids;
  }

  // The character [begin, end) with prefix and suffix, in `buffer` if it has one of them.
  std::string_view decorate(std::string_view piece, std::size_t begin, std::size_t end,
                            std::string& buffer) const {
    const std::string_view symbol = piece.substr(begin, end - begin);
    const bool has_prefix = begin > 0 && !options_.prefix.empty();
    const bool has_suffix = end == piece.size() && !options_.suffix.empty();
    if (!has_prefix && !has_suffix) return symbol;
    buffer = has_prefix ? options_.prefix : "";
    buffer += symbol;
    if (has_suffix) buffer += options_.suffix;
    return buffer;
  }

  MergeTable merges_;
  BpeOptions options_;
};

// A merge is "LEFT RIGHT" or ["LEFT", "RIGHT"].
std::optional<std::pair<std::string, std::string>> merge_words(const TokenizerJson& merge) {
  if (merge.is_array()) {
    if (merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) return std::nullopt;
    return std::pair(merge[0].get<std::string>(), merge[1].get<std::string>());
  }
  if (!merge.is_string()) return std::nullopt;
  const auto text = merge.get<std::string>();
  const std::size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos) return std::nullopt;
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

Result<MergeTable> read_merges(const Fields& model, const Vocabulary& vocabulary,
                               const std::string& prefix) {
  const TokenizerJson* const list = model.find("merges");
  if (list == nullptr || !list->is_array()) return model.bad("merges", "a list");
  MergeTable table;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const TokenizerJson& item = (*list)[i];
    const auto words = merge_words(item);
    const auto left = words ? vocabulary.find(words->first) : std::nullopt;
    const auto right = words ? vocabulary.find(words->second) : std::nullopt;
    // The prefix of the right token is not repeated in the middle of a token.
    const auto both = left && right && words->second.size() >= prefix.size()
                          ? vocabulary.find(words->first + words->second.substr(prefix.size()))
                          : std::nullopt;
    if (!both)
      return model.bad("merges[" + std::to_string(i) + "]", &item,
                       "\"LEFT RIGHT\" or [\"LEFT\", \"RIGHT\"], where both and what they become "
                       "are in model.vocab");
    table.set(*left, *right, {static_cast<std::uint32_t>(i), *both});
  }
  return table;
}

Result<BpeOptions> read_bpe_options(const Fields& model, const Vocabulary& vocabulary) {
  const TokenizerJson* const dropout = model.find("dropout");
  if (dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0))
    return model.bad("dropout", "null or 0");
  const auto prefix = model.text("continuing_subword_prefix", "");
  const auto suffix = model.text("end_of_word_suffix", "");
  const auto unknown = read_named_token(model, "unk_token", vocabulary);
  const auto fuse = model.flag("fuse_unk", false);
  const auto fallback = model.flag("byte_fallback", false);
  const auto ignore = model.flag("ignore_merges", false);
  if (!prefix) return prefix.error();
  if (!suffix) return suffix.error();
  if (!unknown) return unknown.error();
  if (!fuse) return fuse.error();
  if (!fallback) return fallback.error();
  if (!ignore) return ignore.error();
  return BpeOptions{*prefix, *suffix, *unknown, *fuse, *fallback, *ignore};
}

}  // namespace

Result<std::unique_ptr<TokenModel>> read_bpe(const Fields& model) {
  auto vocabulary = read_vocabulary(model);
  if (!vocabulary) return vocabulary.error();
  auto options = read_bpe_options(model, *vocabulary);
  if (!options) return options.error();
  auto merges = read_merges(model, *vocabulary, options->prefix);
  if (!merges) return merges.error();
  return std::unique_ptr<TokenModel>(
      std::make_unique<Bpe>(*std::move(vocabulary), *std::move(merges), *std::move(options)));
}

}  // namespace es::store

#include "store/dataset/questions/word_piece.h"

#include "proto/base/check.h"
#include "store/dataset/field_error.h"
#include "store/dataset/line_reader.h"
#include "store/dataset/questions/unicode.h"

namespace es::store {
namespace {

constexpr std::size_t kWordCharactersMax = 100;

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t before = at;
    // The replacement character itself has three bytes in UTF-8. One byte means that the text was
    // invalid there.
    if (next_character(text, at) == kReplacement && at == before + 1) return false;
  }
  return true;
}

}  // namespace

// A folded word. Character i is the bytes [starts[i], starts[i + 1]) of `text` and came from the
// bytes [begins[i], ends[i]) of the source text.
struct WordPiece::Word {
  std::string text;
  std::vector<std::size_t> starts{0};
  std::vector<std::uint32_t> begins, ends;

  std::size_t size() const { return begins.size(); }
  void add(char32_t c, std::size_t begin, std::size_t end) {
    append_character(c, text);
    starts.push_back(text.size());
    begins.push_back(static_cast<std::uint32_t>(begin));
    ends.push_back(static_cast<std::uint32_t>(end));
  }
  std::string_view part(std::size_t from, std::size_t to) const {
    return std::string_view(text).substr(starts[from], starts[to] - starts[from]);
  }
};

WordPiece::WordPiece(WordPiece&&) noexcept = default;
WordPiece& WordPiece::operator=(WordPiece&&) noexcept = default;
WordPiece::~WordPiece() = default;

Result<WordPiece> WordPiece::read(const std::filesystem::path& file) {
  Result<LineReader> reader = LineReader::open(file);
  if (!reader) return reader.error();
  WordPiece pieces;
  std::string_view line;
  while (true) {
    const Result<bool> more = reader->next(line);
    if (!more) return more.error();
    if (!*more) break;
    if (line.empty() || !is_utf8(line))
      return bad_content(reader->where(), "token", "UTF-8 text that is not empty");
    if (!pieces.ids_.try_emplace(std::string(line), static_cast<std::int32_t>(pieces.size_)).second)
      return bad_content(reader->where(), "token", "one that no earlier line has");
    if (++pieces.size_ > kVocabularyMax)
      return bad_field(reader->where(), "tokens", "more",
                       "at most " + std::to_string(kVocabularyMax));
  }
  ES_RETURN_IF_ERROR(pieces.find_special(file.string()));
  return pieces;
}

Status WordPiece::find_special(const std::string& file) {
  for (const auto& [name, id] : {std::pair{"[PAD]", &pad_}, std::pair{"[UNK]", &unknown_},
                                 std::pair{"[CLS]", &cls_}, std::pair{"[SEP]", &sep_}}) {
    const auto at = ids_.find(std::string_view(name));
    if (at == ids_.end())
      return bad_field(file, "tokens", "without " + std::string(name),
                       "a vocabulary with [PAD], [UNK], [CLS] and [SEP]");
    *id = at->second;
  }
  return {};
}

// Appends the longest piece of the word at `from` and moves `from` behind it. Returns false if no
// piece fits.
bool WordPiece::add_longest(const Word& word, std::size_t& from, std::vector<Piece>& out) const {
  std::string rest;
  if (from > 0) rest = "##";
  const std::size_t prefix = rest.size();
  rest += word.part(from, word.size());
  for (std::size_t to = word.size(); to > from; --to) {
    const std::size_t bytes = prefix + word.starts[to] - word.starts[from];
    const auto at = ids_.find(std::string_view(rest).substr(0, bytes));
    if (at == ids_.end()) continue;
    out.push_back({at->second, word.begins[from], word.ends[to - 1]});
    from = to;
    return true;
  }
  return false;
}

void WordPiece::divide(const Word& word, std::vector<Piece>& out) const {
  if (word.size() == 0) return;
  const std::size_t before = out.size();
  std::size_t from = 0;
  bool divisible = word.size() <= kWordCharactersMax;
  while (divisible && from < word.size()) divisible = add_longest(word, from, out);
  if (divisible) return;
  // The pieces that were found before the part without a piece are dropped: the whole word becomes
  // one unknown token.
  out.resize(before);
  out.push_back({unknown_, word.begins.front(), word.ends.back()});
}

std::vector<Piece> WordPiece::pieces(std::string_view text) const {
  std::vector<Piece> out;
  Word word;
  const auto end_word = [&] {
    divide(word, out);
    word = {};
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_character(text, at);
    if (is_control(c)) continue;
    if (is_space(c)) {
      end_word();
      continue;
    }
    const char32_t letter = folded(c);
    if (letter == 0) continue;
    const bool alone = is_punctuation(letter) || is_ideograph(c);
    if (alone) end_word();
    word.add(letter, begin, at);
    if (alone) end_word();
  }
  end_word();
  return out;
}

}  // namespace es::store

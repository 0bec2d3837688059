#include "store/dataset/questions/vocabulary_file.h"

#include "store/dataset/line_reader.h"
#include "store/field_error.h"
#include "store/tokenizer/utf8.h"

namespace es::store {

static_assert(kVocabularyMax < kTokenIdsMax);

BertVocabulary::BertVocabulary(BertVocabulary&&) noexcept = default;
BertVocabulary& BertVocabulary::operator=(BertVocabulary&&) noexcept = default;
BertVocabulary::~BertVocabulary() = default;

Result<BertVocabulary> BertVocabulary::read(const std::filesystem::path& file) {
  Result<LineReader> reader = LineReader::open(file);
  if (!reader) return reader.error();
  BertVocabulary vocabulary;
  Vocabulary& tokens = vocabulary.tokens_;
  std::string_view line;
  while (true) {
    const Result<bool> more = reader->next(line);
    if (!more) return more.error();
    if (!*more) break;
    if (line.empty() || first_bad_utf8(line))
      return bad_content(reader->where(), "token", "UTF-8 text that is not empty");
    if (!tokens.add(std::string(line), tokens.size()))
      return bad_content(reader->where(), "token", "one that no earlier line has");
    if (tokens.size() > kVocabularyMax)
      return bad_field(reader->where(), "tokens", "more",
                       "at most " + std::to_string(kVocabularyMax));
  }
  ES_RETURN_IF_ERROR(vocabulary.find_special(file.string()));
  return vocabulary;
}

Status BertVocabulary::find_special(const std::string& file) {
  for (const auto& [name, id] : {std::pair{"[PAD]", &pad_}, std::pair{"[UNK]", &rules_.unknown},
                                 std::pair{"[CLS]", &cls_}, std::pair{"[SEP]", &sep_}}) {
    const auto found = tokens_.find(name);
    if (!found)
      return bad_field(file, "tokens", "without " + std::string(name),
                       "a vocabulary with [PAD], [UNK], [CLS] and [SEP]");
    *id = *found;
  }
  return {};
}

}  // namespace es::store

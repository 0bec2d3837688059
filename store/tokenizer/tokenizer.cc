#include "store/tokenizer/tokenizer.h"

#include <algorithm>

#include "store/file_bytes.h"
#include "store/json_depth.h"
#include "store/tokenizer/utf8.h"

namespace es::store {
namespace {

constexpr int kTokenizerDepthMax = 32;

}  // namespace

Result<Tokenizer> Tokenizer::read(const std::filesystem::path& file) {
  const auto text = file_bytes(file, kTokenizerBytesMax);
  if (!text) return text.error();
  return parse(*text, file.string());
}

Result<Tokenizer> Tokenizer::parse(std::string_view text, const std::string& name) {
  const auto json = json_depth(text) > kTokenizerDepthMax
                        ? TokenizerJson(TokenizerJson::value_t::discarded)
                        : TokenizerJson::parse(text, nullptr, false);
  if (!json.is_object())
    return usage_error(name + ": the content is no JSON object of at most " +
                       std::to_string(kTokenizerDepthMax) +
                       " levels: allowed is a tokenizer.json of Hugging Face");
  const Fields file(name, "", json);
  Tokenizer out;
  out.digest_ = digest_of(text);
  auto model = read_model(file);
  if (!model) return model.error();
  out.model_ = *std::move(model);
  auto normalizer = read_normalizer(file, "normalizer");
  if (!normalizer) return normalizer.error();
  out.normalizer_ = *std::move(normalizer);
  auto added = AddedTokens::read(file, out.model_->vocabulary(), out.normalizer_);
  if (!added) return added.error();
  out.size_ = std::max(out.model_->vocabulary().size(), added->vocabulary().size());
  out.added_ = std::make_shared<const AddedTokens>(*std::move(added));
  auto pre_tokenizer = read_pre_tokenizer(file, "pre_tokenizer");
  if (!pre_tokenizer) return pre_tokenizer.error();
  out.pre_tokenizer_ = *std::move(pre_tokenizer);
  auto surrounding = read_post_processor(file, "post_processor", out.size_);
  if (!surrounding) return surrounding.error();
  out.surrounding_ = *std::move(surrounding);
  auto decoder = read_decoder(file, "decoder");
  if (!decoder) return decoder.error();
  out.decoder_ = *std::move(decoder);
  return out;
}

std::optional<std::uint32_t> Tokenizer::find(std::string_view token) const {
  const auto added = added_->vocabulary().find(token);
  return added ? added : model_->vocabulary().find(token);
}

Status Tokenizer::encode(std::string_view text, bool surround, WordCache& cache,
                         std::vector<std::uint32_t>& ids) const {
  if (const auto bad = first_bad_utf8(text))
    return usage_error("byte " + std::to_string(*bad) + " is not UTF-8: allowed is UTF-8 text");
  const auto append = [&](const std::vector<std::uint32_t>& tokens) {
    if (surround) ids.insert(ids.end(), tokens.begin(), tokens.end());
  };
  append(surrounding_.before);
  for (const AddedPart& part : added_->divide(text, false)) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
      continue;
    }
    ES_RETURN_IF_ERROR(
        encode_plain(text.substr(part.begin, part.end - part.begin), part.begin == 0, cache, ids));
  }
  append(surrounding_.after);
  return {};
}

// A text without the tokens that are found before the normalizer.
Status Tokenizer::encode_plain(std::string_view text, bool first, WordCache& cache,
                               std::vector<std::uint32_t>& ids) const {
  std::string normal(text);
  ES_RETURN_IF_ERROR(normalizer_(normal));
  for (const AddedPart& part : added_->divide(normal, true)) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
      continue;
    }
    Pieces pieces;
    pieces.push_back({normal.substr(part.begin, part.end - part.begin), first && part.begin == 0});
    ES_RETURN_IF_ERROR(encode_pieces(std::move(pieces), cache, ids));
  }
  return {};
}

Status Tokenizer::encode_pieces(Pieces pieces, WordCache& cache,
                                std::vector<std::uint32_t>& ids) const {
  ES_RETURN_IF_ERROR(pre_tokenizer_(pieces));
  for (const Piece& piece : pieces) {
    if (const auto known = cache.find(piece.text)) {
      ids.insert(ids.end(), known->begin(), known->end());
      continue;
    }
    const std::size_t before = ids.size();
    ES_RETURN_IF_ERROR(model_->encode(piece.text, ids));
    cache.add(piece.text, std::span<const std::uint32_t>(ids).subspan(before));
  }
  return {};
}

Result<std::string> Tokenizer::decode(std::span<const std::uint32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  for (const std::uint32_t id : ids) {
    if (id >= size_)
      return usage_error("token " + std::to_string(id) + ": allowed is 0 to " +
                         std::to_string(size_ - 1));
    const AddedToken* const added = added_->find(id);
    if (added != nullptr && added->special && skip_special) continue;
    const std::string* const token =
        added != nullptr ? &added->content : model_->vocabulary().token(id);
    if (token != nullptr) tokens.push_back(*token);
  }
  ES_RETURN_IF_ERROR(decoder_(tokens));
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

}  // namespace es::store

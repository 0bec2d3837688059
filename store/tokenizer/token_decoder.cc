#include "store/tokenizer/stages.h"

#include <algorithm>
#include <array>

#include "store/tokenizer/byte_level.h"
#include "store/tokenizer/utf8.h"

namespace es::store {
namespace {

using Tokens = std::vector<std::string>;

constexpr const char* kReplacementText = "\xef\xbf\xbd";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::string concatenation(const Tokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  return all;
}

// A change of each token, which is given its number too.
template <class Change>
TokenDecoder each(Change change) {
  return [change](Tokens& tokens) -> Status {
    for (std::size_t i = 0; i < tokens.size(); ++i) change(i, tokens[i]);
    return {};
  };
}

// A byte that is not part of a character becomes U+FFFD.
std::string as_utf8(std::string_view bytes) {
  std::string out;
  while (const auto bad = first_bad_utf8(bytes)) {
    out += bytes.substr(0, *bad);
    out += kReplacementText;
    bytes = bytes.substr(*bad + 1);
  }
  out += bytes;
  return out;
}

Status join_bytes(Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += byte_level_bytes(token).value_or(token);
  tokens = {as_utf8(bytes)};
  return {};
}

// The byte of a token such as <0x0A>.
std::optional<char> byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned value = 0;
  for (const char digit : token.substr(3, 2)) {
    if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) return std::nullopt;
    value =
        16 * value + static_cast<unsigned>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
  }
  return static_cast<char>(value);
}

// Tokens of bytes in a row become text, or one U+FFFD for each byte if they are not UTF-8.
Status join_byte_tokens(Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (!first_bad_utf8(bytes))
      out.push_back(bytes);
    else
      out.insert(out.end(), bytes.size(), kReplacementText);
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of(token)) {
      bytes += *byte;
      continue;
    }
    flush();
    out.push_back(std::move(token));
  }
  flush();
  tokens = std::move(out);
  return {};
}

// Removes the spaces that the division of English text has made.
void clean_up(std::string& text) {
  constexpr std::array<std::pair<const char*, const char*>, 11> kChanges{{{" .", "."},
                                                                          {" ?", "?"},
                                                                          {" !", "!"},
                                                                          {" ,", ","},
                                                                          {" ' ", "'"},
                                                                          {" n't", "n't"},
                                                                          {" 'm", "'m"},
                                                                          {" do not", " don't"},
                                                                          {" 's", "'s"},
                                                                          {" 've", "'ve"},
                                                                          {" 're", "'re"}}};
  for (const auto& [from, to] : kChanges) replace_all(text, from, to);
}

Result<TokenDecoder> read_word_piece_decoder(const Fields& fields) {
  const auto prefix = fields.text("prefix", "##");
  const auto cleanup = fields.flag("cleanup", true);
  if (!prefix) return prefix.error();
  if (!cleanup) return cleanup.error();
  return each([prefix = *prefix, cleanup = *cleanup](std::size_t i, std::string& token) {
    if (i > 0 && !prefix.empty() && token.starts_with(prefix))
      token.erase(0, prefix.size());
    else if (i > 0)
      token.insert(0, " ");
    if (cleanup) clean_up(token);
  });
}

Result<TokenDecoder> read_metaspace_decoder(const Fields& fields) {
  const auto mark = read_metaspace(fields);
  const auto scheme = read_prepend_scheme(fields);
  if (!mark) return mark.error();
  if (!scheme) return scheme.error();
  const bool prepended = *scheme != PrependScheme::kNever;
  return each([mark = *mark, prepended](std::size_t i, std::string& token) {
    replace_all(token, mark, i == 0 && prepended ? "" : " ");
  });
}

Result<TokenDecoder> read_replace_decoder(const Fields& fields) {
  const auto replace = read_replacement(fields);
  if (!replace) return replace.error();
  return TokenDecoder([replace = *replace](Tokens& tokens) -> Status {
    for (std::string& token : tokens) ES_RETURN_IF_ERROR(replace(token));
    return {};
  });
}

Result<TokenDecoder> read_strip_decoder(const Fields& fields) {
  constexpr std::uint64_t kStripMax = 1'000'000;
  const auto content = fields.text("content");
  const auto start = fields.number("start", kStripMax);
  const auto stop = fields.number("stop", kStripMax);
  if (!content) return content.error();
  if (content->empty()) return fields.bad("content", "one character");
  if (!start) return start.error();
  if (!stop) return stop.error();
  return each([content = *content, start = *start, stop = *stop](std::size_t, std::string& token) {
    for (std::uint64_t n = 0; n < start && token.starts_with(content); ++n)
      token.erase(0, content.size());
    for (std::uint64_t n = 0; n < stop && token.ends_with(content); ++n)
      token.resize(token.size() - content.size());
  });
}

Result<TokenDecoder> read_step(const Fields& fields);

Result<TokenDecoder> read_steps(const Fields& fields) {
  const auto parts = fields.objects("decoders");
  if (!parts) return parts.error();
  std::vector<TokenDecoder> steps;
  for (const Fields& part : *parts) {
    auto step = read_step(part);
    if (!step) return step.error();
    steps.push_back(*std::move(step));
  }
  return TokenDecoder([steps](Tokens& tokens) -> Status {
    for (const TokenDecoder& step : steps) ES_RETURN_IF_ERROR(step(tokens));
    return {};
  });
}

Result<TokenDecoder> read_step(const Fields& fields) {
  const auto type = fields.type({"Sequence", "ByteLevel", "WordPiece", "Metaspace", "ByteFallback",
                                 "Fuse", "Replace", "Strip"});
  if (!type) return type.error();
  if (*type == "Sequence") return read_steps(fields);
  if (*type == "ByteLevel") return TokenDecoder(join_bytes);
  if (*type == "WordPiece") return read_word_piece_decoder(fields);
  if (*type == "Metaspace") return read_metaspace_decoder(fields);
  if (*type == "ByteFallback") return TokenDecoder(join_byte_tokens);
  if (*type == "Replace") return read_replace_decoder(fields);
  if (*type == "Strip") return read_strip_decoder(fields);
  return TokenDecoder([](Tokens& tokens) -> Status {  // Fuse
    tokens = {concatenation(tokens)};
    return {};
  });
}

}  // namespace

Result<TokenDecoder> read_decoder(const Fields& fields, const char* key) {
  if (fields.find(key) == nullptr)
    return each([](std::size_t i, std::string& token) {
      if (i > 0) token.insert(0, " ");
    });
  const auto object = fields.object(key);
  return object ? read_step(*object) : Result<TokenDecoder>(object.error());
}

}  // namespace es::store

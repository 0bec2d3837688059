// Samples in token files, for language models from model files.
//
// The shards (token_shard.h) of the training are the files of DIRECTORY/train, in the order of the
// bytes of their names, and those of the evaluation are in DIRECTORY/eval; or they are
// DIRECTORY/train.bin and DIRECTORY/val.bin. Without "eval" or "val.bin" there are no evaluation
// samples.
//
// The model has two inputs i32 [T]: the labels are the one called "labels" or "label", otherwise
// the second, and the ids are the other one. It may have two more of this shape, "position_ids" and
// "segment_ids". Sample i of a shard is a window: ids are the tokens iT
// to iT + T - 1, and labels the same tokens (data.shifted = false) or those one place later. A
// window lies in one shard; the tokens after the last whole window of a shard, at most T, are not
// used. Samples are numbered through all shards.
//
// With data.document_end = E a document ends behind every token E, and at the ends of a window. The
// segment of a token is the number of its document in the window, and its position the number of
// tokens before it in its document and window. Without E a window is one document. A label is -100,
// which the loss ignores, if the token before it is E: no document says how the next one begins.
#include "store/dataset/sources.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "store/dataset/layouts.h"
#include "store/dataset/record_source.h"
#include "store/dataset/tokens/token_files.h"
#include "store/dataset/tokens/token_shard.h"
#include "store/field_error.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

// What an input of the model gets.
enum class TokenRole { kIds, kLabels, kPositions, kSegments };

// How tokens become samples.
struct TokenWindows {
  CapturedInputs inputs;
  std::vector<TokenRole> roles;    // of each input
  std::uint64_t length = 0;        // of a window
  std::uint64_t label_lag = 0;     // labels begin this number of tokens after the ids
  std::int64_t document_end = -1;  // the token that ends a document; -1: there is none

  std::uint64_t tokens() const { return length + label_lag; }
  // The number of whole windows of a shard.
  std::uint64_t in(const TokenShard& shard) const {
    return shard.tokens() < tokens() ? 0 : (shard.tokens() - label_lag) / length;
  }
};

// The shards of one half, and the number of windows in each one and those before it.
struct TokenHalf {
  std::vector<TokenShard> shards;
  std::vector<std::uint64_t> ends;

  std::uint64_t windows() const { return ends.empty() ? 0 : ends.back(); }
  std::uint64_t begin_of(std::size_t shard) const { return shard == 0 ? 0 : ends[shard - 1]; }
};

// Nothing: the inputs are not those of a language model.
std::optional<std::vector<TokenRole>> roles_of(const CapturedInputs& inputs) {
  std::vector<TokenRole> roles;
  std::vector<std::size_t> tokens;
  for (std::size_t i = 0; i < inputs.inputs.size(); ++i) {
    const CapturedInput& input = inputs.inputs[i];
    const bool fits = input.type == ValueType::kI32 && input.shape.size() == 1 &&
                      input.shape == inputs.inputs.front().shape;
    if (!fits) return std::nullopt;
    const std::string& name = input.field.name;
    const bool positions = name == token_field::kPositions;
    if (!positions && name != token_field::kSegments) tokens.push_back(i);
    roles.push_back(positions ? TokenRole::kPositions : TokenRole::kSegments);
  }
  if (tokens.size() != 2) return std::nullopt;
  const std::string& first = inputs.inputs[tokens[0]].field.name;
  const bool labels_first = first == "labels" || first == "label";
  roles[tokens[0]] = labels_first ? TokenRole::kLabels : TokenRole::kIds;
  roles[tokens[1]] = labels_first ? TokenRole::kIds : TokenRole::kLabels;
  return roles;
}

// The ranges that the inputs of a job with documents must have.
Status check_documents(const TokenWindows& windows) {
  const bool has_segments =
      std::ranges::find(windows.roles, TokenRole::kSegments) != windows.roles.end();
  if (windows.document_end >= 0 && !has_segments)
    return bad_field(
        "job", "data.document_end", std::to_string(windows.document_end),
        "-1 for a model without the input \"segment_ids\", whose tokens would attend to "
        "those of other documents");
  const auto last = static_cast<std::int64_t>(windows.length) - 1;
  for (std::size_t i = 0; i < windows.roles.size(); ++i) {
    const SampleField& field = windows.inputs.inputs[i].field;
    const bool numbers =
        windows.roles[i] == TokenRole::kPositions || windows.roles[i] == TokenRole::kSegments;
    if (numbers && (field.low > 0 || field.high < last))
      return usage_error("model.file: the input \"" + field.name + "\" takes " +
                         std::to_string(field.low) + " to " + std::to_string(field.high) +
                         ": allowed is a model that takes 0 to " + std::to_string(last));
    const bool ignores = field.low <= token_field::kIgnoredLabel;
    if (windows.document_end >= 0 && windows.roles[i] == TokenRole::kLabels && !ignores)
      return usage_error("model.file: the input \"" + field.name +
                         "\" takes no label -100: allowed "
                         "is a loss that ignores it, for data.document_end");
  }
  return {};
}

Result<TokenWindows> windows_of(const JobSpec& spec, const CapturedInputs& inputs) {
  auto roles = roles_of(inputs);
  if (!roles)
    return bad_field("job", "data.kind", "\"tokens\"",
                     "another kind, because the model has not two inputs i32 [T], the ids and the "
                     "labels");
  const auto length = static_cast<std::uint64_t>(inputs.inputs.front().shape.front());
  if (spec.data.length != 0 && spec.data.length != length)
    return bad_field("job", "data.length", std::to_string(spec.data.length),
                     std::to_string(length) + ", as the inputs of the model, or 0");
  TokenWindows windows{.inputs = inputs,
                       .roles = *std::move(roles),
                       .length = length,
                       .label_lag = spec.data.shifted ? 1U : 0U,
                       .document_end = spec.data.document_end};
  ES_RETURN_IF_ERROR(check_documents(windows));
  return windows;
}

Result<TokenHalf> open_shards(const std::vector<fs::path>& files, const JobSpec& spec,
                              const TokenWindows& windows) {
  const NpyType raw_type = spec.data.token_type == "uint32" ? NpyType::kU32 : NpyType::kU16;
  TokenHalf half;
  for (const fs::path& file : files) {
    auto shard = TokenShard::open(file, raw_type);
    if (!shard) return shard.error();
    half.ends.push_back(half.windows() + windows.in(*shard));
    half.shards.push_back(*std::move(shard));
  }
  if (half.windows() > 0) return half;
  const fs::path where = files.size() == 1 ? files.front() : files.front().parent_path();
  return bad_field(
      where.string(), "number of windows", "0",
      "at least 1, so a file with at least " + std::to_string(windows.tokens()) + " tokens");
}

class TokensSource final : public RecordSource {
 public:
  TokensSource(TokenWindows windows, TokenHalf train, TokenHalf eval)
      : RecordSource({.layout = windows.inputs.layout(),
                      .train_count = train.windows(),
                      .eval_count = eval.windows()}),
        windows_(std::move(windows)),
        train_(std::move(train)),
        eval_(std::move(eval)) {}

  // Reads the first and the last window of every shard.
  Status check_ends() const {
    std::vector<float> words(static_cast<std::size_t>(layout().words()));
    const SampleBlock block(layout(), 1, words);
    Scratch scratch;
    for (const Half half : {Half::kTrain, Half::kEval}) {
      const TokenHalf& shards = half == Half::kTrain ? train_ : eval_;
      for (std::size_t s = 0; s < shards.ends.size(); ++s) {
        if (shards.begin_of(s) == shards.ends[s]) continue;
        for (const std::uint64_t window : {shards.begin_of(s), shards.ends[s] - 1})
          ES_RETURN_IF_ERROR(write(half, 0, window, block, 0, scratch));
      }
    }
    return {};
  }

 private:
  Status write(Half half, std::uint64_t, std::uint64_t index, const SampleBlock& block,
               std::uint64_t position, Scratch& scratch) const override {
    const TokenHalf& shards = half == Half::kTrain ? train_ : eval_;
    const auto s = static_cast<std::size_t>(std::ranges::upper_bound(shards.ends, index) -
                                            shards.ends.begin());
    const std::uint64_t first = (index - shards.begin_of(s)) * windows_.length;
    const TokenShard& shard = shards.shards[s];
    ES_RETURN_IF_ERROR(shard.read(first, windows_.tokens(), scratch.pixels));
    const Window window{shard, first, scratch.pixels};
    for (std::size_t f = 0; f < windows_.roles.size(); ++f)
      ES_RETURN_IF_ERROR(write_field(f, window, block.field(f, position)));
    return {};
  }

  // The tokens of a window, which begins at token `first` of the shard.
  struct Window {
    const TokenShard& shard;
    std::uint64_t first;
    std::span<const std::uint8_t> bytes;

    std::int64_t token(std::uint64_t index) const {
      return npy_integer(shard.type(), bytes, index);
    }
  };

  Status write_field(std::size_t field, const Window& window, std::span<float> words) const {
    switch (windows_.roles[field]) {
      case TokenRole::kIds:
        return write_tokens(windows_.inputs.inputs[field].field, 0, window, words);
      case TokenRole::kLabels:
        ES_RETURN_IF_ERROR(
            write_tokens(windows_.inputs.inputs[field].field, windows_.label_lag, window, words));
        ignore_beginnings(window, words);
        return {};
      case TokenRole::kPositions:
      case TokenRole::kSegments:
        write_places(windows_.roles[field], window, words);
        return {};
    }
    return {};
  }

  Status write_tokens(const SampleField& input, std::uint64_t lag, const Window& window,
                      std::span<float> words) const {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::int64_t token = window.token(lag + i);
      // A label that the loss ignores is no token, so it is not in a file.
      if (token < std::max(input.low, 0) || token > input.high)
        return bad_content(
            window.shard.path().string(), "token " + std::to_string(window.first + lag + i),
            std::to_string(std::max(input.low, 0)) + " to " + std::to_string(input.high) +
                ", the range of input \"" + input.name + "\" of the model");
      words[i] = std::bit_cast<float>(static_cast<std::int32_t>(token));
    }
    return {};
  }

  // The label of token j is ignored if token j - 1 ends a document.
  void ignore_beginnings(const Window& window, std::span<float> labels) const {
    if (windows_.document_end < 0) return;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::uint64_t token = windows_.label_lag + i;
      if (token > 0 && window.token(token - 1) == windows_.document_end)
        labels[i] = std::bit_cast<float>(token_field::kIgnoredLabel);
    }
  }

  void write_places(TokenRole role, const Window& window, std::span<float> words) const {
    std::int32_t segment = 0, place = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = std::bit_cast<float>(role == TokenRole::kSegments ? segment : place);
      const bool ends = windows_.document_end >= 0 && window.token(i) == windows_.document_end;
      segment += ends;
      place = ends ? 0 : place + 1;
    }
  }

  TokenWindows windows_;
  TokenHalf train_, eval_;
};

}  // namespace

Result<std::shared_ptr<const SampleSource>> tokens_source(const JobSpec& spec,
                                                          const CapturedInputs& inputs) {
  auto windows = windows_of(spec, inputs);
  if (!windows) return windows.error();
  const auto files = token_files(spec.data.path);
  if (!files) return files.error();
  auto train = open_shards(files->train, spec, *windows);
  if (!train) return train.error();
  auto eval = files->eval.empty() ? Result<TokenHalf>(TokenHalf())
                                  : open_shards(files->eval, spec, *windows);
  if (!eval) return eval.error();
  auto source =
      std::make_shared<TokensSource>(*std::move(windows), *std::move(train), *std::move(eval));
  ES_RETURN_IF_ERROR(source->check_ends());
  return std::shared_ptr<const SampleSource>(std::move(source));
}

}  // namespace es::store

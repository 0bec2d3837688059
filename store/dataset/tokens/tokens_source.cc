#include "store/dataset/tokens/tokens_source.h"

#include <algorithm>
#include <bit>

#include "store/dataset/field_error.h"
#include "store/dataset/record_source.h"
#include "store/dataset/tokens/token_files.h"
#include "store/dataset/tokens/token_shard.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

// How tokens become samples.
struct TokenWindows {
  CapturedInputs inputs;
  std::size_t labels = 1;       // the input with the labels
  std::uint64_t length = 0;     // of a window
  std::uint64_t label_lag = 0;  // labels begin this number of tokens after the ids

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

bool takes_tokens(const CapturedInputs& inputs) {
  return inputs.inputs.size() == 2 &&
         std::ranges::all_of(inputs.inputs, [&](const CapturedInput& input) {
           return input.type == ValueType::kI32 && input.shape.size() == 1 &&
                  input.shape == inputs.inputs.front().shape;
         });
}

Result<TokenWindows> windows_of(const JobSpec& spec, const CapturedInputs& inputs) {
  if (!takes_tokens(inputs))
    return bad_field("job", "data.kind", "\"tokens\"",
                     "another kind, because the model has not two inputs i32 [T], the ids and the "
                     "labels");
  const auto length = static_cast<std::uint64_t>(inputs.inputs.front().shape.front());
  if (spec.data.length != 0 && spec.data.length != length)
    return bad_field("job", "data.length", std::to_string(spec.data.length),
                     std::to_string(length) + ", as the inputs of the model, or 0");
  const std::string& first = inputs.inputs.front().field.name;
  return TokenWindows{.inputs = inputs,
                      .labels = first == "labels" || first == "label" ? 0U : 1U,
                      .length = length,
                      .label_lag = spec.data.shifted ? 1U : 0U};
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
    for (std::size_t f = 0; f < windows_.inputs.inputs.size(); ++f)
      ES_RETURN_IF_ERROR(write_field(f, shard, first, scratch.pixels, block.field(f, position)));
    return {};
  }

  // `bytes` are the tokens of the window, which begins at token `first` of the shard.
  Status write_field(std::size_t field, const TokenShard& shard, std::uint64_t first,
                     std::span<const std::uint8_t> bytes, std::span<float> words) const {
    const SampleField& input = windows_.inputs.inputs[field].field;
    const std::uint64_t lag = field == windows_.labels ? windows_.label_lag : 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::int64_t token = npy_integer(shard.type(), bytes, lag + i);
      if (token < input.low || token > input.high)
        return bad_content(shard.path().string(), "token " + std::to_string(first + lag + i),
                           std::to_string(input.low) + " to " + std::to_string(input.high) +
                               ", the range of input \"" + input.name + "\" of the model");
      words[i] = std::bit_cast<float>(static_cast<std::int32_t>(token));
    }
    return {};
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

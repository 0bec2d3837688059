// esctl data tokenize | inspect | index | remove: token files for language models, and tar files of
// images.
#include <csignal>

#include "actors/esctl/client/options.h"
#include "actors/esctl/client/stop_signals.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/commands/data_parts.h"
#include "actors/views/progress.h"
#include "store/dataset/shards/shard_files.h"
#include "store/dataset/tokens/token_files.h"
#include "store/dataset/tokens/token_set.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;

constexpr int kSignalBase = 128;  // the exit code of a command that a signal has stopped
constexpr std::uint64_t kUsualShardTokens = std::uint64_t{1} << 24;
constexpr std::size_t kShownTokens = 48;

struct TokenizeOptions {
  std::vector<std::string> texts;
  std::string tokenizer;
  std::string out;
  std::string field = "text";
  std::string append_token;
  double eval_share = 0;
  std::uint64_t shard_tokens = kUsualShardTokens;
  bool json = false;
};

Result<store::TokenSetRequest> request_of(const TokenizeOptions& options,
                                          const store::Tokenizer& tokenizer) {
  store::TokenSetRequest request{.texts = {options.texts.begin(), options.texts.end()},
                                 .out = options.out,
                                 .field = options.field,
                                 .eval_share = options.eval_share,
                                 .shard_tokens = options.shard_tokens};
  if (options.append_token.empty()) return request;
  request.appended = tokenizer.find(options.append_token);
  if (!request.appended)
    return usage_error("--append-token \"" + options.append_token + "\": allowed is a token of " +
                       options.tokenizer);
  return request;
}

Result<int> tokenize(const TokenizeOptions& options, Console& console) {
  const auto tokenizer = store::Tokenizer::read(options.tokenizer);
  if (!tokenizer) return tokenizer.error();
  const auto request = request_of(options, *tokenizer);
  if (!request) return request.error();
  StopSignals signals;
  ByteProgress progress(console, options.json);
  const auto counts = store::write_token_set(store::posix_file_system(), *tokenizer, *request,
                                             [&](std::uint64_t done, std::uint64_t total) {
                                               progress.show(done, total);
                                               signals.take();
                                               return signals.first() == 0;
                                             });
  if (!counts) return counts.error();
  if (!*counts) return kSignalBase + signals.first();
  progress.end();
  const TokenSetView view{.directory = options.out,
                          .tokenizer_digest = tokenizer->digest().hex(),
                          .vocabulary = tokenizer->size(),
                          .counts = **counts};
  console.out << (options.json ? token_set_json(view) + "\n" : token_set_text(view));
  return 0;
}

struct InspectDataOptions {
  std::string directory;
  std::string tokenizer;
  std::string token_type = "uint16";
  bool json = false;
};

// What is known about the ids of a directory before they are read.
struct ExpectedIds {
  std::optional<store::TokenSetDescription> description;
  std::optional<store::Tokenizer> tokenizer;

  std::uint64_t end() const {
    if (tokenizer) return tokenizer->size();
    return description ? description->vocabulary : store::kTokenIdsMax;
  }
};

Result<ExpectedIds> expected_ids(const InspectDataOptions& options) {
  auto description = store::read_token_set_description(options.directory);
  if (!description) return description.error();
  ExpectedIds expected{.description = *std::move(description)};
  if (options.tokenizer.empty()) return expected;
  auto tokenizer = store::Tokenizer::read(options.tokenizer);
  if (!tokenizer) return tokenizer.error();
  expected.tokenizer.emplace(*std::move(tokenizer));
  const std::string digest = expected.tokenizer->digest().hex();
  if (expected.description && expected.description->tokenizer_digest != digest)
    return usage_error(options.tokenizer + ": digest = " + digest + ": allowed is " +
                       expected.description->tokenizer_digest + ", that of the tokenizer of " +
                       options.directory);
  return expected;
}

// nullopt: a signal has ended the reading.
Result<std::optional<TokenHalfView>> inspect_half(const std::vector<fs::path>& files,
                                                  const InspectDataOptions& options,
                                                  const ExpectedIds& expected,
                                                  StopSignals& signals) {
  const store::NpyType raw_type =
      options.token_type == "uint32" ? store::NpyType::kU32 : store::NpyType::kU16;
  std::vector<store::TokenShard> shards;
  TokenHalfView view;
  for (const fs::path& file : files) {
    auto shard = store::TokenShard::open(file, raw_type);
    if (!shard) return shard.error();
    view.shards.push_back({file.string(), store::npy_name(shard->type()), shard->tokens()});
    shards.push_back(*std::move(shard));
  }
  auto summary = store::summarize_tokens(shards, expected.end(), kShownTokens, [&](std::uint64_t) {
    signals.take();
    return signals.first() == 0;
  });
  if (!summary) return summary.error();
  if (!*summary) return std::optional<TokenHalfView>();
  view.summary = **std::move(summary);
  if (expected.tokenizer) {
    auto text = expected.tokenizer->decode(view.summary.first, false);
    if (!text) return text.error();
    view.first_text = *std::move(text);
  }
  return std::optional(std::move(view));
}

Result<int> inspect_data(const InspectDataOptions& options, Console& console) {
  if (store::has_shards(options.directory)) {
    const auto text = inspect_shards(options.directory, options.json);
    if (!text) return text.error();
    console.out << *text;
    return 0;
  }
  const auto files = store::token_files(options.directory);
  if (!files) return files.error();
  const auto expected = expected_ids(options);
  if (!expected) return expected.error();
  StopSignals signals;
  TokenDirectoryView view{.directory = options.directory};
  if (expected->description) view.tokenizer_digest = expected->description->tokenizer_digest;
  if (expected->tokenizer) view.tokenizer_digest = expected->tokenizer->digest().hex();
  if (expected->description || expected->tokenizer) view.vocabulary = expected->end();
  for (const auto& [paths, half] :
       {std::pair{&files->train, &view.train}, std::pair{&files->eval, &view.eval}}) {
    auto found = inspect_half(*paths, options, *expected, signals);
    if (!found) return found.error();
    if (!*found) return kSignalBase + signals.first();
    *half = **std::move(found);
  }
  console.out << (options.json ? token_directory_json(view) + "\n" : token_directory_text(view));
  return 0;
}

template <class Options>
void on_use(CLI::App& command, Shell& shell, const std::shared_ptr<Options>& options,
            Result<int> (*run)(const Options&, Console&)) {
  command.callback([options, run, &shell] {
    shell.exit_code = finish(run(*options, shell.console), options->json, shell.console);
  });
}

void add_tokenize(CLI::App& data, Shell& shell) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = data.add_subcommand(
      "tokenize",
      "Encode texts with a tokenizer.json and write token files for data.kind = "
      "\"tokens\"");
  command
      ->add_option("texts", options->texts,
                   "Text files in UTF-8, each one a document, or files *.jsonl and *.ndjson with "
                   "a document in each line; also compressed with gzip")
      ->required()
      ->type_name("TEXT");
  command->add_option("--tokenizer", options->tokenizer, "The tokenizer of Hugging Face")
      ->required()
      ->type_name("tokenizer.json");
  command->add_option("--out", options->out, "The new directory")->required()->type_name("DIR");
  command
      ->add_option("--eval-share", options->eval_share,
                   "Share of the evaluation: the end of every text file, and documents of the "
                   "lines at equal distances (default 0)")
      ->check(CLI::Range(0.0, 0.9))
      ->type_name("SHARE");
  command
      ->add_option("--append-token", options->append_token,
                   "A token behind every document, for example <|endoftext|>")
      ->type_name("NAME");
  command->add_option("--field", options->field, "The field with the document (default text)")
      ->type_name("NAME");
  command
      ->add_option("--shard-tokens", options->shard_tokens,
                   "Tokens of a file (default 16777216); a shard of each half is in memory")
      ->check(CLI::Range(std::uint64_t{1024}, store::kShardTokensMax))
      ->type_name("N");
  add_json_option(*command, options->json);
  command->footer(
      "The ids are those of the library tokenizers without the tokens of its post-processor. A "
      "text file of more than 4 MiB is encoded in parts that end at the ends of lines.\n"
      "Example:\n  esctl data tokenize book.txt --tokenizer tokenizer.json --out data "
      "--eval-share 0.1");
  on_use(*command, shell, options, tokenize);
}

void add_inspect(CLI::App& data, Shell& shell) {
  auto options = std::make_shared<InspectDataOptions>();
  CLI::App* command = data.add_subcommand(
      "inspect",
      "Read all tokens of a directory and show their number, the largest id, the "
      "digest and the first ones; or the number of samples in tar files");
  command
      ->add_option("directory", options->directory,
                   "Token files or tar files, as data.path names them")
      ->required()
      ->type_name("DIR");
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "Show text, and refuse ids beyond this vocabulary")
      ->type_name("tokenizer.json");
  command
      ->add_option("--token-type", options->token_type,
                   "Type of .bin files without a header: uint16 or uint32 (default uint16)")
      ->check(CLI::IsMember({"uint16", "uint32"}))
      ->type_name("TYPE");
  add_json_option(*command, options->json);
  command->footer("Example:\n  esctl data inspect data --tokenizer tokenizer.json");
  on_use(*command, shell, options, inspect_data);
}

struct IndexOptions {
  std::string directory;
  bool json = false;
};

Result<int> write_indexes(const IndexOptions& options, Console& console) {
  const auto text = write_shard_indexes(options.directory, options.json);
  if (!text) return text.error();
  console.out << *text;
  return 0;
}

void add_index(CLI::App& data, Shell& shell) {
  auto options = std::make_shared<IndexOptions>();
  CLI::App* command =
      data.add_subcommand("index", "Write beside every tar file of images where its samples are");
  command->add_option("directory", options->directory, "Tar files, as data.path names them")
      ->required()
      ->type_name("DIR");
  add_json_option(*command, options->json);
  command->footer(
      "A job with data.kind = \"webdataset\" then reads NAME.tar.index, and not the headers in\n"
      "NAME.tar. An index counts as long as its tar file keeps its size, its time of change and "
      "its\n"
      "first and last bytes; without one that counts the headers are read. Copy tar files with "
      "their\n"
      "times (cp -p, rsync -t).\n"
      "Example:\n  esctl data index data");
  on_use(*command, shell, options, write_indexes);
}

}  // namespace

void add_data_command(CLI::App& app, Shell& shell) {
  CLI::App* data = app.add_subcommand(
      "data", "Write and show token files for language models; show and index tar files");
  data->require_subcommand(1);
  add_tokenize(*data, shell);
  add_inspect(*data, shell);
  add_index(*data, shell);
  add_data_remove(*data, shell);
}

}  // namespace es::actors::esctl

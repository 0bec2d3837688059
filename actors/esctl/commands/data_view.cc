#include "actors/esctl/commands/data_parts.h"

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"

namespace es::actors::esctl {
namespace {

using TokenJson = nlohmann::ordered_json;
using TokenRows = std::vector<std::vector<std::string>>;

std::string half_counts_text(const store::TokenHalfCounts& half) {
  return counted(half.tokens, "token") + " of " + counted(half.documents, "document") + " in " +
         counted(half.shards, "shard");
}

TokenJson half_counts_json(const store::TokenHalfCounts& half) {
  return {{"documents", half.documents}, {"tokens", half.tokens}, {"shards", half.shards}};
}

void add_half_rows(const std::string& name, const TokenHalfView& half, TokenRows& rows) {
  if (half.shards.empty()) return rows.push_back({name, "none"});
  rows.push_back({name, counted(half.summary.tokens, "token") + " in " +
                            counted(half.shards.size(), "shard")});
  rows.push_back({"  type", half.shards.front().type});
  rows.push_back({"  largest id", std::to_string(half.summary.largest)});
  rows.push_back({"  digest", half.summary.digest.hex()});
  std::string ids;
  for (const std::uint32_t id : half.summary.first)
    ids += (ids.empty() ? "" : " ") + std::to_string(id);
  rows.push_back({"  first ids", ids});
  // As JSON, so that a line end in the text is no line end here.
  if (half.first_text) rows.push_back({"  first text", json_text(TokenJson(*half.first_text))});
}

TokenJson half_json(const TokenHalfView& half) {
  if (half.shards.empty()) return nullptr;
  TokenJson shards = TokenJson::array();
  for (const TokenShardView& shard : half.shards)
    shards.push_back({{"file", shard.file}, {"type", shard.type}, {"tokens", shard.tokens}});
  TokenJson json{{"tokens", half.summary.tokens},
                 {"largest_id", half.summary.largest},
                 {"digest", half.summary.digest.hex()},
                 {"first_ids", half.summary.first},
                 {"first_text", nullptr},
                 {"shards", std::move(shards)}};
  if (half.first_text) json["first_text"] = *half.first_text;
  return json;
}

}  // namespace

std::string token_set_text(const TokenSetView& view) {
  return table({{"directory", view.directory},
                {"tokenizer digest", view.tokenizer_digest},
                {"vocabulary", std::to_string(view.vocabulary)},
                {"token type", view.counts.wide ? "uint32" : "uint16"},
                {"text", counted(view.counts.text_bytes, "byte")},
                {"train", half_counts_text(view.counts.train)},
                {"eval", half_counts_text(view.counts.eval)}});
}

std::string token_set_json(const TokenSetView& view) {
  return json_text(TokenJson{{"directory", view.directory},
                             {"tokenizer_digest", view.tokenizer_digest},
                             {"vocabulary", view.vocabulary},
                             {"token_type", view.counts.wide ? "uint32" : "uint16"},
                             {"text_bytes", view.counts.text_bytes},
                             {"train", half_counts_json(view.counts.train)},
                             {"eval", half_counts_json(view.counts.eval)}});
}

std::string token_directory_text(const TokenDirectoryView& view) {
  TokenRows rows{{"directory", view.directory}};
  if (view.tokenizer_digest) rows.push_back({"tokenizer digest", *view.tokenizer_digest});
  if (view.vocabulary) rows.push_back({"vocabulary", std::to_string(*view.vocabulary)});
  add_half_rows("train", view.train, rows);
  add_half_rows("eval", view.eval, rows);
  return table(rows);
}

std::string token_directory_json(const TokenDirectoryView& view) {
  TokenJson json{{"directory", view.directory},
                 {"tokenizer_digest", nullptr},
                 {"vocabulary", nullptr},
                 {"train", half_json(view.train)},
                 {"eval", half_json(view.eval)}};
  if (view.tokenizer_digest) json["tokenizer_digest"] = *view.tokenizer_digest;
  if (view.vocabulary) json["vocabulary"] = *view.vocabulary;
  return json_text(json);
}

}  // namespace es::actors::esctl

#include "store/tokenizer/stages.h"

namespace es::store {
namespace {

Result<SurroundingTokens> read_processor(const Fields& fields, std::uint32_t ids_end);

bool is_id(const TokenizerJson& json, std::uint32_t ids_end) {
  return json.is_number_unsigned() && json.get<std::uint64_t>() < ids_end;
}

std::string id_range(std::uint32_t ids_end) {
  return "0 to " + std::to_string(std::int64_t{ids_end} - 1);
}

// ["TOKEN", ID]
Result<std::uint32_t> read_token_and_id(const Fields& fields, const char* key,
                                        std::uint32_t ids_end) {
  const TokenizerJson* const pair = fields.find(key);
  if (pair == nullptr || !pair->is_array() || pair->size() != 2 || !is_id((*pair)[1], ids_end))
    return fields.bad(key, "[TOKEN, ID] with an id from " + id_range(ids_end));
  return (*pair)[1].get<std::uint32_t>();
}

// BertProcessing and RobertaProcessing
Result<SurroundingTokens> read_cls_and_sep(const Fields& fields, std::uint32_t ids_end) {
  const auto cls = read_token_and_id(fields, "cls", ids_end);
  const auto sep = read_token_and_id(fields, "sep", ids_end);
  if (!cls) return cls.error();
  if (!sep) return sep.error();
  return SurroundingTokens{{*cls}, {*sep}};
}

// Appends the ids that the template gives to the special token `name`.
Status append_special(const Fields& specials, const std::string& name, std::uint32_t ids_end,
                      std::vector<std::uint32_t>& out) {
  const auto special = specials.object(name.c_str());
  if (!special) return special.error();
  const TokenizerJson* const ids = special->find("ids");
  if (ids == nullptr || !ids->is_array()) return special->bad("ids", "a list of ids");
  for (const TokenizerJson& id : *ids) {
    if (!is_id(id, ids_end)) return special->bad("ids", &id, id_range(ids_end));
    out.push_back(id.get<std::uint32_t>());
  }
  return {};
}

Result<SurroundingTokens> read_template(const Fields& fields, std::uint32_t ids_end) {
  const auto parts = fields.objects("single");
  if (!parts) return parts.error();
  const auto specials = fields.object("special_tokens");
  if (!specials) return specials.error();
  SurroundingTokens tokens;
  bool behind = false;
  for (const Fields& part : *parts) {
    if (part.find("Sequence") != nullptr) {
      if (behind) return fields.bad("single", "a list with one Sequence");
      behind = true;
      continue;
    }
    const auto special = part.object("SpecialToken");
    if (!special) return special.error();
    const auto name = special->text("id");
    if (!name) return name.error();
    ES_RETURN_IF_ERROR(
        append_special(*specials, *name, ids_end, behind ? tokens.after : tokens.before));
  }
  if (!behind) return fields.bad("single", "a list with one Sequence");
  return tokens;
}

// Every processor surrounds what the earlier ones have made.
Result<SurroundingTokens> read_processors(const Fields& fields, std::uint32_t ids_end) {
  const auto parts = fields.objects("processors");
  if (!parts) return parts.error();
  SurroundingTokens all;
  for (const Fields& part : *parts) {
    const auto outer = read_processor(part, ids_end);
    if (!outer) return outer.error();
    all.before.insert(all.before.begin(), outer->before.begin(), outer->before.end());
    all.after.insert(all.after.end(), outer->after.begin(), outer->after.end());
  }
  return all;
}

Result<SurroundingTokens> read_processor(const Fields& fields, std::uint32_t ids_end) {
  const auto type = fields.type(
      {"Sequence", "TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel"});
  if (!type) return type.error();
  if (*type == "Sequence") return read_processors(fields, ids_end);
  if (*type == "TemplateProcessing") return read_template(fields, ids_end);
  if (*type == "ByteLevel") return SurroundingTokens{};  // it changes offsets only
  return read_cls_and_sep(fields, ids_end);
}

}  // namespace

Result<SurroundingTokens> read_post_processor(const Fields& fields, const char* key,
                                              std::uint32_t ids_end) {
  if (fields.find(key) == nullptr) return SurroundingTokens{};
  const auto object = fields.object(key);
  return object ? read_processor(*object, ids_end) : Result<SurroundingTokens>(object.error());
}

}  // namespace es::store

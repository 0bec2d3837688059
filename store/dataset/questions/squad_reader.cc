#include "store/dataset/questions/squad_reader.h"

#include <nlohmann/json.hpp>

#include "store/field_error.h"
#include "store/file_bytes.h"
#include "store/json_depth.h"
#include "store/tokenizer/utf8.h"

namespace es::store {
namespace {

using Json = nlohmann::json;

constexpr int kSquadDepthMax = 32;  // the members of SQuAD are nine levels deep

// A value and its place in the file.
struct Node {
  const Json* json;
  std::string where;  // "FILE: $.data[3].paragraphs[0]"
};

const char* allowed_type(Json::value_t type) {
  switch (type) {
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a text";
    default:
      return "a whole number from 0 on";
  }
}

Result<Node> member(const Node& node, const char* name, Json::value_t type) {
  if (!node.json->is_object()) return usage_error(node.where + ": allowed is an object");
  const auto at = node.json->find(name);
  if (at == node.json->end()) return bad_field(node.where, name, "(missing)", allowed_type(type));
  if (at->type() != type)
    return bad_field(node.where, name, std::string("(") + at->type_name() + ")",
                     allowed_type(type));
  return Node{&*at, node.where + "." + name};
}

Result<std::string> text_of(const Node& node, const char* name) {
  const Result<Node> text = member(node, name, Json::value_t::string);
  if (!text) return text.error();
  return text->json->get<std::string>();
}

// Calls `read(Node)` for each element of the list `name`.
template <class Read>
Status for_each(const Node& node, const char* name, Read read) {
  const Result<Node> list = member(node, name, Json::value_t::array);
  if (!list) return list.error();
  for (std::size_t i = 0; i < list->json->size(); ++i)
    ES_RETURN_IF_ERROR(read(Node{&(*list->json)[i], list->where + "[" + std::to_string(i) + "]"}));
  return {};
}

Status read_answer(const Node& node, const std::string& context, SquadQuestion& question) {
  const Result<std::string> text = text_of(node, "text");
  if (!text) return text.error();
  const Result<Node> start = member(node, "answer_start", Json::value_t::number_unsigned);
  if (!start) return start.error();
  const auto number = start->json->get<std::uint64_t>();
  // The file counts characters; texts in memory are bytes.
  const std::size_t begin = byte_offset(context, number);
  const bool there = begin != std::string::npos && !text->empty() &&
                     std::string_view(context).substr(begin).starts_with(*text);
  if (!there)
    return bad_content(node.where, "answer_start", "where the context has the answer's text");
  question.answers.push_back({*text, static_cast<std::uint32_t>(begin)});
  return {};
}

Status read_question(const Node& node, SquadParagraph& paragraph) {
  SquadQuestion question;
  for (const auto& [name, text] :
       {std::pair{"id", &question.id}, std::pair{"question", &question.text}}) {
    Result<std::string> found = text_of(node, name);
    if (!found) return found.error();
    *text = *std::move(found);
  }
  ES_RETURN_IF_ERROR(for_each(node, "answers", [&](const Node& answer) {
    return read_answer(answer, paragraph.context, question);
  }));
  if (question.answers.empty())
    return bad_field(node.where, "answers", "(none)", "at least one, as in SQuAD v1.1");
  paragraph.questions.push_back(std::move(question));
  return {};
}

Status read_paragraph(const Node& node, std::vector<SquadParagraph>& paragraphs) {
  SquadParagraph paragraph;
  Result<std::string> context = text_of(node, "context");
  if (!context) return context.error();
  paragraph.context = *std::move(context);
  ES_RETURN_IF_ERROR(for_each(
      node, "qas", [&](const Node& question) { return read_question(question, paragraph); }));
  // A paragraph without a question gives no sample.
  if (!paragraph.questions.empty()) paragraphs.push_back(std::move(paragraph));
  return {};
}

}  // namespace

Result<std::vector<SquadParagraph>> read_squad(const std::filesystem::path& file) {
  const Result<std::string> bytes = file_bytes(file, kSquadBytesMax);
  if (!bytes) return bytes.error();
  if (const int depth = json_depth(*bytes); depth > kSquadDepthMax)
    return bad_field(file.string(), "depth of the JSON text", std::to_string(depth),
                     "at most " + std::to_string(kSquadDepthMax));
  Json json;
  try {
    json = Json::parse(*bytes);
  } catch (const Json::parse_error& error) {
    return usage_error(file.string() + ": no JSON (at byte " + std::to_string(error.byte) +
                       "): allowed is the format of SQuAD v1.1");
  } catch (const Json::exception&) {
    return usage_error(file.string() + ": no JSON: allowed is the format of SQuAD v1.1");
  }
  std::vector<SquadParagraph> paragraphs;
  const Node root{&json, file.string() + ": $"};
  ES_RETURN_IF_ERROR(for_each(root, "data", [&](const Node& article) {
    return for_each(article, "paragraphs",
                    [&](const Node& paragraph) { return read_paragraph(paragraph, paragraphs); });
  }));
  if (paragraphs.empty()) return bad_field(file.string(), "questions", "0", "at least one");
  return paragraphs;
}

}  // namespace es::store

#include "actors/service/shell/http_body.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "actors/views/json_text.h"
#include "proto/base/job_spec.h"

namespace es::actors::http {
namespace {

constexpr std::size_t kLineBytesMax = 4096;

std::string names_of(std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text.empty() ? "none" : text;
}

bool is_among(const std::string& name, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* n) { return name == n; });
}

Error wrong(const char* field, const std::string& allowed) {
  return usage_error(std::string("field \"") + field + "\": allowed is " + allowed);
}

}  // namespace

Result<nlohmann::json> read_body(const Request& request,
                                 std::initializer_list<const char*> fields) {
  if (request.body.empty()) return nlohmann::json::object();
  auto body = nlohmann::json::parse(request.body, nullptr, false);
  if (body.is_discarded()) return usage_error("the body is no JSON");
  if (!body.is_object()) return usage_error("the body must be a JSON object");
  for (const auto& [name, value] : body.items())
    if (!is_among(name, fields))
      return usage_error("field \"" + escaped(name) + "\": allowed are " + names_of(fields));
  return body;
}

Result<std::string> text_field(const nlohmann::json& body, const char* field) {
  const auto at = body.find(field);
  if (at == body.end()) return std::string();
  if (!at->is_string() || at->get_ref<const std::string&>().find('\0') != std::string::npos)
    return wrong(field, "a text without a zero byte");
  return at->get<std::string>();
}

Result<std::string> line_field(const nlohmann::json& body, const char* field) {
  auto text = text_field(body, field);
  if (text && (!is_plain(*text) || text->size() > kLineBytesMax))
    return wrong(field, "a text without control characters, at most " +
                            std::to_string(kLineBytesMax) + " bytes");
  return text;
}

Result<std::uint64_t> number_field(const nlohmann::json& body, const char* field) {
  constexpr std::uint64_t kMost = 0xFFFFFFFFU;
  const auto at = body.find(field);
  if (at == body.end()) return std::uint64_t{0};
  // For JSON, 2.0 is a whole number too.
  const double value = at->is_number() ? at->get<double>() : -1.0;
  if (!(value >= 0 && value <= double(kMost)) || value != std::floor(value))
    return wrong(field, "a whole number from 0 to " + std::to_string(kMost));
  return static_cast<std::uint64_t>(value);
}

Result<double> amount_field(const nlohmann::json& body, const char* field) {
  const auto at = body.find(field);
  const double value = at != body.end() && at->is_number() ? at->get<double>() : -1.0;
  if (!(value >= 0 && value <= kBudgetMax)) return wrong(field, "a number from 0 to 1e12");
  return value;
}

Result<bool> flag_field(const nlohmann::json& body, const char* field) {
  const auto at = body.find(field);
  if (at == body.end()) return false;
  if (!at->is_boolean()) return wrong(field, "true or false");
  return at->get<bool>();
}

Result<std::uint64_t> query_number(const Request& request, const char* name,
                                   std::uint64_t otherwise, std::uint64_t most) {
  const auto at = request.query.find(name);
  if (at == request.query.end()) return otherwise;
  const std::string& text = at->second;
  std::uint64_t value = 0;
  const auto end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value > most)
    return usage_error(std::string("query ") + name + " = \"" + escaped(text) +
                       "\": allowed is a whole number from 0 to " + std::to_string(most));
  return value;
}

std::string query_text(const Request& request, const char* name) {
  const auto at = request.query.find(name);
  return at == request.query.end() ? "" : at->second;
}

Status check_query(const Request& request, std::initializer_list<const char*> names) {
  for (const auto& [name, value] : request.query)
    if (!is_among(name, names))
      return usage_error("query \"" + escaped(name) + "\": allowed are " + names_of(names));
  return {};
}

Response done_response(const std::string& note) {
  const nlohmann::ordered_json json{
      {"note", note.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(note)}};
  return {.body = json_text(json, -1) + "\n"};
}

}  // namespace es::actors::http

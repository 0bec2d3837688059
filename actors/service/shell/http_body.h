#pragma once
// Reads the JSON body and the query of a request. Every error names the field, the value and what
// is allowed.
#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>

#include "actors/service/core/http_types.h"

namespace es::actors::http {

// The body as a JSON object with no other fields than these; an empty body is an empty object.
Result<nlohmann::json> read_body(const Request& request, std::initializer_list<const char*> fields);

// A text without zero bytes; empty if the field is missing.
Result<std::string> text_field(const nlohmann::json& body, const char* field);
// The same on one line, at most 4,096 bytes: a name or a path.
Result<std::string> line_field(const nlohmann::json& body, const char* field);
// A whole number from 0 to 2^32 - 1; 0 if the field is missing.
Result<std::uint64_t> number_field(const nlohmann::json& body, const char* field);
// A number from 0 to 1e12, which must be there.
Result<double> amount_field(const nlohmann::json& body, const char* field);
Result<bool> flag_field(const nlohmann::json& body, const char* field);

// A whole number of the query from 0 to `most`.
Result<std::uint64_t> query_number(const Request& request, const char* name,
                                   std::uint64_t otherwise, std::uint64_t most);
std::string query_text(const Request& request, const char* name);
// Error (usage): the query has a name that is not among these.
Status check_query(const Request& request, std::initializer_list<const char*> names);

// {"note": TEXT or null}, or with other fields.
Response done_response(const std::string& note);

}  // namespace es::actors::http

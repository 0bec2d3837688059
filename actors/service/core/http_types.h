#pragma once
// Requests and answers of the HTTP service as plain values.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/base/result.h"

namespace es::actors::http {

struct Request {
  std::string method;                        // "GET", in capitals
  std::string path;                          // decoded, without the query
  std::map<std::string, std::string> query;  // decoded; the last one of equal names
  std::string authorization;                 // the header of this name; empty: none
  std::string accept;                        // the header of this name
  std::string content_type;                  // without parameters
  std::string body;
  std::string host;        // the header of this name
  std::string origin;      // the header of this name; empty: none
  std::string fetch_site;  // the header Sec-Fetch-Site; empty: none
  std::string peer;        // address of the client, for the audit log
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

inline constexpr const char* kJson = "application/json";
inline constexpr const char* kText = "text/plain; charset=utf-8";

// {"error": TEXT, "kind": KIND} with the status of the kind: usage 400, not found 404, refused 409,
// failure 500.
Response error_response(const Error& error);
// The same with another status.
Response error_response(int status, const std::string& message);

}  // namespace es::actors::http

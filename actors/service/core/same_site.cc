#include "actors/service/core/same_site.h"

#include <algorithm>

#include "proto/base/text.h"

namespace es::actors::http {
namespace {

std::string in_small_letters(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

// "http://HOST:PORT" without the scheme; the text itself if it has none, such as "null".
std::string host_of(const std::string& origin) {
  constexpr std::string_view kAfterScheme = "://";
  const std::size_t at = origin.find(kAfterScheme);
  return at == std::string::npos ? origin : origin.substr(at + kAfterScheme.size());
}

}  // namespace

Status check_same_site(const Request& request) {
  if (!request.fetch_site.empty()) {
    // "none": the user has typed the address.
    if (request.fetch_site == "same-origin" || request.fetch_site == "none") return {};
    return refused("the header Sec-Fetch-Site is \"" + escaped(request.fetch_site) +
                   "\": a page of another site may not send requests; allowed is same-origin");
  }
  if (request.origin.empty() ||
      in_small_letters(host_of(request.origin)) == in_small_letters(request.host))
    return {};
  return refused("the header Origin is \"" + escaped(request.origin) +
                 "\": a page of another site may not send requests; allowed is the host \"" +
                 escaped(request.host) + "\"");
}

bool is_loopback_host(const std::string& host) {
  const std::string name = in_small_letters(
      host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':')));
  if (name == "localhost" || name == "[::1]") return true;
  // An address, and no name such as 127.evil.example.
  return name.starts_with("127.") && name.find_first_not_of("0123456789.") == std::string::npos;
}

Status check_content_type(const Request& request) {
  if (request.content_type == kJson) return {};
  // A browser asks the service before it sends another method than these for a page of another
  // site, and the service answers such questions with 405.
  const bool without_asking = request.method == "POST";
  if (!without_asking && request.body.empty()) return {};
  return usage_error("the header Content-Type must be application/json");
}

}  // namespace es::actors::http

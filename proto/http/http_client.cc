#include "proto/http/http_client.h"

#include <curl/curl.h>

#include <stdexcept>

namespace es {
namespace {

constexpr long kConnectSeconds = 5, kRequestSeconds = 30;
constexpr std::size_t kBodyMax = std::size_t{16} << 20;

// Collects an answer. A smaller result than `count` makes libcurl give up the transfer.
std::size_t collect(const char* bytes, std::size_t, std::size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + count > kBodyMax) return 0;
  text.append(bytes, count);
  return count;
}

}  // namespace

struct HttpClient::Handle {
  CURL* curl = nullptr;
  curl_slist* headers = nullptr;

  Handle() {
    curl_global_init(CURL_GLOBAL_DEFAULT);
    curl = curl_easy_init();
    if (curl == nullptr) throw std::bad_alloc();
  }
  ~Handle() {
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    curl_global_cleanup();
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
};

HttpClient::HttpClient(std::string url, const HttpLogin& login)
    : url_(url.ends_with('/') ? url.substr(0, url.size() - 1) : std::move(url)),
      handle_(std::make_unique<Handle>()) {
  CURL* curl = handle_->curl;
  handle_->headers = curl_slist_append(nullptr, "Content-Type: application/json");
  for (const std::string& header : login.headers)
    handle_->headers = curl_slist_append(handle_->headers, header.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, handle_->headers);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, kRequestSeconds);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
  if (!login.token.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, login.token.c_str());
  } else if (!login.user.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    curl_easy_setopt(curl, CURLOPT_USERNAME, login.user.c_str());
    curl_easy_setopt(curl, CURLOPT_PASSWORD, login.password.c_str());
  }
}

HttpClient::~HttpClient() = default;

Result<HttpAnswer> HttpClient::get(const std::string& path) {
  curl_easy_setopt(handle_->curl, CURLOPT_HTTPGET, 1L);
  return perform(path);
}

Result<HttpAnswer> HttpClient::post(const std::string& path, const std::string& json) {
  curl_easy_setopt(handle_->curl, CURLOPT_POSTFIELDSIZE_LARGE,
                   static_cast<curl_off_t>(json.size()));
  curl_easy_setopt(handle_->curl, CURLOPT_COPYPOSTFIELDS, json.c_str());
  return perform(path);
}

Result<HttpAnswer> HttpClient::perform(const std::string& path) {
  CURL* curl = handle_->curl;
  HttpAnswer answer;
  curl_easy_setopt(curl, CURLOPT_URL, (url_ + path).c_str());
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer.body);
  const CURLcode code = curl_easy_perform(curl);
  if (code != CURLE_OK) return failure(url_ + ": " + curl_easy_strerror(code));
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  return answer;
}

std::string percent_encoded(const std::string& text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  static const std::string kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string encoded;
  for (const char c : text) {
    if (kPlain.find(c) != std::string::npos) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return encoded;
}

}  // namespace es

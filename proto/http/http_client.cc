#include "proto/http/http_client.h"

#include <curl/curl.h>

#include <exception>
#include <stdexcept>

namespace es {
namespace {

constexpr long kConnectSeconds = 5, kRequestSeconds = 30;
constexpr std::size_t kBodyMax = std::size_t{16} << 20;

// Collects an answer. A smaller result than `count` makes libcurl give up the transfer. No
// exception may pass through libcurl: its handle would be of no use afterwards.
std::size_t collect(const char* bytes, std::size_t, std::size_t count, void* body) noexcept {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + count > kBodyMax) return 0;
  text.append(bytes, count);
  return count;
}

// An answer that goes on.
struct Stream {
  CURL* curl = nullptr;
  const std::atomic<bool>* stop = nullptr;
  const std::function<void(std::string_view)>* on_line = nullptr;
  std::string rest;             // the begin of a line; of an error: its body
  std::exception_ptr thrown{};  // by on_line
};

std::size_t take_lines(Stream& stream, const char* bytes, std::size_t count) {
  long status = 0;
  curl_easy_getinfo(stream.curl, CURLINFO_RESPONSE_CODE, &status);
  if (stream.rest.size() + count > kBodyMax) return 0;
  stream.rest.append(bytes, count);
  if (status >= 300) return count;
  std::size_t begin = 0;
  for (std::size_t end; (end = stream.rest.find('\n', begin)) != std::string::npos; begin = end + 1)
    (*stream.on_line)(std::string_view(stream.rest).substr(begin, end - begin));
  stream.rest.erase(0, begin);
  return count;
}

std::size_t collect_lines(const char* bytes, std::size_t, std::size_t count, void* of) noexcept {
  auto& stream = *static_cast<Stream*>(of);
  try {
    return take_lines(stream, bytes, count);
  } catch (...) {
    stream.thrown = std::current_exception();
    return 0;
  }
}

// libcurl calls it about once a second; another result than 0 ends the transfer.
int is_stopped(void* of, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept {
  return static_cast<Stream*>(of)->stop->load() ? 1 : 0;
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
  if (!login.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, login.ca_file.c_str());
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

Result<HttpAnswer> HttpClient::send(const std::string& method, const std::string& path,
                                    const std::string& type, const std::string& content) {
  CURL* curl = handle_->curl;
  curl_slist* headers = curl_slist_append(nullptr, ("Content-Type: " + type).c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method.c_str());
  auto answer = post(path, content);
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, nullptr);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, handle_->headers);
  curl_slist_free_all(headers);
  return answer;
}

Result<HttpAnswer> HttpClient::stream(const std::string& path, long silent_seconds,
                                      const std::atomic<bool>& stop,
                                      const std::function<void(std::string_view)>& on_line) {
  CURL* curl = handle_->curl;
  Stream stream{.curl = curl, .stop = &stop, .on_line = &on_line, .rest = {}};
  curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
  curl_easy_setopt(curl, CURLOPT_URL, (url_ + path).c_str());
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 0L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, silent_seconds);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, is_stopped);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &stream);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect_lines);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &stream);
  const CURLcode code = curl_easy_perform(curl);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, kRequestSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 0L);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 1L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
  if (stream.thrown) std::rethrow_exception(stream.thrown);
  if (code != CURLE_OK) return failure(url_ + ": " + curl_easy_strerror(code));
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  return HttpAnswer{static_cast<int>(status), std::move(stream.rest)};
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

#pragma once
// HttpClient: requests with JSON to a service, by libcurl.
//
// Not thread-safe. A request ends after 30 s at the latest, an attempt to connect after 5 s, and an
// answer of more than 16 MiB is an error. Redirections are not followed.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"
#include "proto/base/service_url.h"

namespace es {

struct HttpAnswer {
  int status = 0;  // for example 200
  std::string body;
};

// How a client says who it is: by nothing, by a token ("Authorization: Bearer"), by a user and a
// password, or by further headers, each as "NAME: VALUE".
struct HttpLogin {
  std::string token, user, password;
  std::vector<std::string> headers{};
  // File with the certificates (PEM) by which the service is known; empty: those of the system.
  std::string ca_file{};
};

class HttpClient {
 public:
  // `url` begins with http:// or https://, and a slash at its end is left out.
  HttpClient(std::string url, const HttpLogin& login);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // `path` begins with a slash. An answer with any status is a success. Errors: failure (no
  // connection, no answer in time).
  Result<HttpAnswer> get(const std::string& path);
  Result<HttpAnswer> post(const std::string& path, const std::string& json);
  // Any other method, such as "PATCH", with the type of its content.
  Result<HttpAnswer> send(const std::string& method, const std::string& path,
                          const std::string& type, const std::string& content);

  // GET of an answer that goes on. Each line of it is given to `on_line`, without its end, and the
  // answer has no body unless its status is an error. The request ends when the service ends it,
  // or within a second after `stop`. Errors: failure (no connection; nothing came for
  // `silent_seconds`; a line of more than 16 MiB; stopped). An exception of `on_line` ends the
  // request and is thrown again; the client can be used further.
  Result<HttpAnswer> stream(const std::string& path, long silent_seconds,
                            const std::atomic<bool>& stop,
                            const std::function<void(std::string_view)>& on_line);

 private:
  Result<HttpAnswer> perform(const std::string& path);

  struct Handle;
  const std::string url_;
  std::unique_ptr<Handle> handle_;
};

// A text in which all bytes but letters, digits and -._~ are written as %XX.
std::string percent_encoded(const std::string& text);

}  // namespace es

// What a page of another site may not do, and that programs and the own page may.
#include "actors/service/core/same_site.h"

#include <doctest/doctest.h>

#include <string>

TEST_SUITE("http/same_site") {
  using namespace es::actors::http;

  Request from(const std::string& origin, const std::string& fetch_site,
               const std::string& host = "127.0.0.1:8080") {
    return {.host = host, .origin = origin, .fetch_site = fetch_site};
  }

  TEST_CASE("a program, the own page and an address that a user has typed are served") {
    CHECK(check_same_site(from("", "")).ok());
    CHECK(check_same_site(from("http://127.0.0.1:8080", "same-origin")).ok());
    CHECK(check_same_site(from("", "none")).ok());
    // A browser that sends no Sec-Fetch-Site.
    CHECK(check_same_site(from("http://127.0.0.1:8080", "")).ok());
    CHECK(check_same_site(from("https://Head.Example", "", "head.example")).ok());
    // A proxy has replaced the host; the browser knows better.
    CHECK(check_same_site(from("https://head.example", "same-origin")).ok());
  }

  TEST_CASE("the page of another site is refused, whichever header its browser sends") {
    CHECK_FALSE(check_same_site(from("http://evil.example", "cross-site")).ok());
    CHECK_FALSE(check_same_site(from("http://evil.example", "")).ok());
    CHECK_FALSE(check_same_site(from("", "cross-site")).ok());
    // Another port of the same machine is another program.
    CHECK_FALSE(check_same_site(from("", "same-site")).ok());
    CHECK_FALSE(check_same_site(from("http://127.0.0.1:9090", "")).ok());
    // A file, or a frame without an origin.
    CHECK_FALSE(check_same_site(from("null", "")).ok());
    CHECK_FALSE(check_same_site(from("http://127.0.0.1:8080.evil.example", "")).ok());
    const es::Status named = check_same_site(from("http://evil.example", ""));
    CHECK(named.error().message.find("http://evil.example") != std::string::npos);
  }

  TEST_CASE("only names of the loopback address lead to a service without tokens") {
    for (const char* host : {"localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:8080",
                             "127.0.0.2:1", "[::1]", "[::1]:8080"})
      CHECK_MESSAGE(is_loopback_host(host), host);
    for (const char* host : {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                             "127.evil.example:8080", "[::2]", "10.0.0.1", "0.0.0.0"})
      CHECK_FALSE_MESSAGE(is_loopback_host(host), host);
  }

  TEST_CASE("what a form could send has to be JSON") {
    CHECK(check_content_type({.method = "POST", .content_type = kJson}).ok());
    CHECK_FALSE(check_content_type({.method = "POST"}).ok());
    CHECK_FALSE(check_content_type({.method = "POST", .content_type = "text/plain"}).ok());
    CHECK(check_content_type({.method = "DELETE"}).ok());
    CHECK_FALSE(check_content_type({.method = "PUT", .body = "{}"}).ok());
  }
}

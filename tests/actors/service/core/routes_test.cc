// Routes: which request is which action, and that the description of the service has them all.
#include "actors/service/core/routes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "actors/base/access/core/requests.h"
#include "actors/service/shell/web_files.h"

TEST_SUITE("http/routes") {
  using namespace es::actors::http;

  const char* role_of(const Route& route) {
    return role_name(es::actors::access::request_kind(*route.request)->role);
  }

  TEST_CASE("a path finds its route and its argument") {
    const Match job = match_route("GET", "/api/v1/jobs/a-1");
    REQUIRE(job.route != nullptr);
    CHECK(job.route->action == Action::kDescribeJob);
    CHECK(job.argument == "a-1");
    const Match log = match_route("GET", "/api/v1/jobs/a-1/log");
    REQUIRE(log.route != nullptr);
    CHECK(log.route->action == Action::kReadLog);
    CHECK(match_route("POST", "/api/v1/jobs").route->action == Action::kSubmitJob);
    CHECK(match_route("GET", "/").route->action == Action::kPage);
    CHECK(match_route("GET", "/web/app.js").route->action == Action::kPage);
  }

  TEST_CASE("HEAD finds what GET finds, and nothing else") {
    CHECK(match_route("HEAD", "/api/v1/jobs").route->action == Action::kListJobs);
    CHECK(match_route("HEAD", "/").route->action == Action::kPage);
    CHECK(match_route("HEAD", "/api/v1/jobs/a-1/pause").route == nullptr);
    CHECK(match_route("PATCH", "/api/v1/jobs").allowed == "GET, HEAD, POST");
    CHECK(takes_long(*match_route("HEAD", "/api/v1/jobs/a-1/trace").route));
    CHECK_FALSE(takes_long(*match_route("HEAD", "/api/v1/jobs/a-1").route));
  }

  TEST_CASE("other paths and methods have no route") {
    for (const char* path : {"", "x", "/x", "/api/v1/jobs/", "/api/v1/jobs//log", "//",
                             "/api/v1/jobs/a/b/c", "/api/v1/jobs/a/", "/../etc/passwd"}) {
      CAPTURE(path);
      const Match match = match_route("GET", path);
      CHECK(match.route == nullptr);
      CHECK(match.allowed.empty());
    }
    const Match other = match_route("DELETE", "/api/v1/jobs");
    CHECK(other.route == nullptr);
    CHECK(other.allowed == "GET, HEAD, POST");
  }

  TEST_CASE("whatever changes something needs a role beyond view") {
    for (const Route& route : routes()) {
      CAPTURE(route.path);
      if (changes(route)) CHECK(es::actors::access::request_kind(route.request.value())->changes());
    }
  }

  TEST_CASE("the description has every route with its role, and no other") {
    const WebFile* file = web_file("/api/v1/openapi.json");
    REQUIRE(file != nullptr);
    const auto description = nlohmann::json::parse(file->text);
    CHECK(description.at("openapi") == "3.1.0");
    std::set<std::string> described, known;
    for (const auto& [path, methods] : description.at("paths").items())
      for (const auto& [method, operation] : methods.items()) {
        if (method == "parameters") continue;
        std::string name = method;
        std::transform(name.begin(), name.end(), name.begin(), [](char c) {
          return static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
        });
        described.insert(name + " " + path + " " + operation.at("description").get<std::string>());
      }
    for (const Route& route : routes())
      known.insert(std::string(route.method) + " " + route.path + " " +
                   (route.request ? std::string("Needs the role ") + role_of(route) + "."
                                  : "Needs no token."));
    CHECK(described == known);
  }
}

#include "actors/kubernetes/core/object_cache.h"

#include <doctest/doctest.h>

using namespace es::actors::kubernetes;

namespace {

std::string event(const std::string& type, const std::string& name, int version) {
  return Json{
      {"type", type},
      {"object", {{"metadata", {{"name", name}, {"resourceVersion", std::to_string(version)}}}}}}
      .dump();
}

}  // namespace

TEST_SUITE("actors/kubernetes/core/object_cache") {
  TEST_CASE("a watch goes on from the last version that was seen") {
    ObjectCache cache;
    CHECK(cache.version().empty());
    cache.take_list(Json::parse(R"({"metadata": {"resourceVersion": "7"}, "items": [
        {"metadata": {"name": "a", "resourceVersion": "3"}}]})"));
    CHECK(cache.version() == "7");
    CHECK(cache.objects().contains("a"));
    CHECK(cache.take_event(event("ADDED", "b", 8)) == Watched::kChange);
    CHECK(cache.take_event(event("DELETED", "a", 9)) == Watched::kChange);
    CHECK(cache.take_event(event("BOOKMARK", "", 20)) == Watched::kNothing);
    CHECK(cache.version() == "20");
    CHECK(cache.objects().size() == 1);
  }

  TEST_CASE("an expired version is told from other errors, which change nothing") {
    ObjectCache cache;
    cache.take_list(Json::parse(R"({"metadata": {"resourceVersion": "7"}, "items": []})"));
    CHECK(cache.take_event(R"({"type": "ERROR", "object": {"code": 410}})") == Watched::kExpired);
    CHECK(cache.take_event(R"({"type": "ERROR", "object": {"code": 500}})") == Watched::kStrange);
    CHECK(cache.take_event("nonsense") == Watched::kStrange);
    CHECK(cache.take_event(R"({"type": "ADDED", "object": []})") == Watched::kStrange);
    CHECK(cache.version() == "7");
  }
}

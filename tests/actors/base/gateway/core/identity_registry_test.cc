#include "actors/base/gateway/core/identity_registry.h"

#include <doctest/doctest.h>

#include <string>

namespace es::actors {
namespace {

void pass_by(IdentityRegistry& registry, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const PeerId id = "client/" + std::to_string(i);
    REQUIRE(registry.claim(id, "visitor"));
    registry.release(id);
  }
}

TEST_SUITE("actors/base/gateway/identity_registry") {
  TEST_CASE("the first key owns an id, whether its peer is present or gone") {
    IdentityRegistry registry;
    CHECK(registry.claim("node/a", "key a"));
    CHECK_FALSE(registry.claim("node/a", "key b"));
    registry.release("node/a");
    CHECK_FALSE(registry.claim("node/a", "key b"));
    CHECK(registry.claim("node/a", "key a"));
    CHECK(registry.claim("node/b", "key b"));
  }

  TEST_CASE("an id whose key is revoked goes to another key, and no other id does") {
    IdentityRegistry registry;
    for (const std::string id : {"node/a", "node/b", "node/c"})
      CHECK(registry.claim(id, id == "node/b" ? "key b" : "key a"));
    registry.release("node/a");
    registry.release("node/b");
    registry.forget_past([](const std::string& key) { return key == "key a"; });
    CHECK_FALSE(registry.claim("node/b", "key n"));
    CHECK_FALSE(registry.claim("node/c", "key n"));  // it is present
    CHECK(registry.claim("node/a", "key n"));
    CHECK(*registry.owner("node/a") == "key n");
    CHECK(registry.owner("node/d") == nullptr);
    // The earlier departure of the id does not end the new ownership.
    pass_by(registry, kPastOwnersMax + 1);
    CHECK_FALSE(registry.claim("node/a", "key a"));
  }

  TEST_CASE("an id is forgotten after a certain number of others has left, and not before") {
    IdentityRegistry registry;
    CHECK(registry.claim("node/a", "key a"));
    registry.release("node/a");
    pass_by(registry, kPastOwnersMax - 1);
    CHECK_FALSE(registry.claim("node/a", "key b"));
    pass_by(registry, 1);
    CHECK(registry.claim("node/a", "key b"));
  }

  TEST_CASE("an id that is present is never forgotten") {
    IdentityRegistry registry;
    CHECK(registry.claim("node/a", "key a"));
    registry.release("node/a");
    CHECK(registry.claim("node/a", "key a"));
    pass_by(registry, 2 * kPastOwnersMax);
    CHECK_FALSE(registry.claim("node/a", "key b"));
  }

  TEST_CASE("the position of an id in the order is that of its last departure") {
    IdentityRegistry registry;
    CHECK(registry.claim("node/a", "key a"));
    registry.release("node/a");
    pass_by(registry, kPastOwnersMax - 1);
    CHECK(registry.claim("node/a", "key a"));
    registry.release("node/a");
    pass_by(registry, kPastOwnersMax - 1);
    CHECK_FALSE(registry.claim("node/a", "key b"));
  }
}

}  // namespace
}  // namespace es::actors

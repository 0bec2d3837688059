#include "store/kv/keys.h"

#include <doctest/doctest.h>

using namespace es::store;

TEST_SUITE("store/kv/keys") {
  TEST_CASE("a component that is a prefix of another one gives no prefix of its key") {
    const std::string shorter = KeyBuilder("job").text("net").key();
    const std::string longer = KeyBuilder("job").text("net2").key();
    CHECK_FALSE(longer.starts_with(shorter));
  }

  TEST_CASE("numbers sort as numbers, and are read back") {
    const std::uint64_t numbers[] = {0, 1, 255, 256, 1ull << 32, ~0ull};
    std::string previous;
    for (const std::uint64_t number : numbers) {
      const std::string key = KeyBuilder("ledger").number(number).key();
      CHECK(previous < key);
      CHECK(decode_key_number(key.substr(key.size() - 8)) == number);
      previous = key;
    }
  }

  TEST_CASE("the end of a prefix lies after all keys with it and before all others") {
    CHECK(prefix_end("ab") == "ac");
    CHECK(prefix_end("a\xff\xff") == "b");
    const std::string prefix = KeyBuilder("ledger").text("a").key();
    CHECK(KeyBuilder("ledger").text("a").number(~0ull).key() < prefix_end(prefix));
    CHECK(prefix_end(prefix) < KeyBuilder("ledger").text("aa").key());
  }
}

// Tokens: the file, the roles and who is recognised.
#include "actors/service/core/tokens.h"

#include <doctest/doctest.h>

TEST_SUITE("http/tokens") {
  using namespace es;
  using namespace es::actors::http;

  // echo -n secret | sha256sum
  const std::string kSecretHash =
      "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

  TEST_CASE("a file keeps its tokens through writing and reading") {
    const std::vector<Token> tokens{{{"alice", Role::kSubmit, "vision"}, kSecretHash},
                                    {{"boss", Role::kAdmin, ""}, sha256_hex("other")}};
    const auto read = parse_tokens(tokens_text(tokens), "tokens");
    REQUIRE(read.ok());
    REQUIRE(read->size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK((*read)[i].identity.name == tokens[i].identity.name);
      CHECK((*read)[i].identity.role == tokens[i].identity.role);
      CHECK((*read)[i].identity.tenant == tokens[i].identity.tenant);
      CHECK((*read)[i].sha256 == tokens[i].sha256);
    }
  }

  TEST_CASE("only the whole token is recognised") {
    const std::vector<Token> tokens{{{"alice", Role::kView, ""}, kSecretHash}};
    REQUIRE(identify(tokens, "Bearer secret").has_value());
    CHECK(identify(tokens, "Bearer secret")->name == "alice");
    for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer secre", "Bearer secret ",
                              "bearer secret", "Basic secret", "secret"}) {
      CAPTURE(wrong);
      CHECK_FALSE(identify(tokens, wrong).has_value());
    }
    // The digest in the file is no token.
    CHECK_FALSE(identify(tokens, "Bearer " + kSecretHash).has_value());
    CHECK_FALSE(identify({}, "Bearer secret").has_value());
  }

  TEST_CASE("a role may do what the roles before it may do") {
    const Identity submitter{"s", Role::kSubmit, ""};
    CHECK(submitter.may(Role::kView));
    CHECK(submitter.may(Role::kSubmit));
    CHECK_FALSE(submitter.may(Role::kOperate));
    CHECK(Identity{"a", Role::kAdmin, ""}.may(Role::kOperate));
  }

  TEST_CASE("a tenant sees its own jobs only") {
    const Identity bound{"b", Role::kAdmin, "vision"}, free{"f", Role::kView, ""};
    CHECK(bound.may_see("vision"));
    CHECK_FALSE(bound.may_see("speech"));
    CHECK_FALSE(bound.may_see(""));
    CHECK(free.may_see("speech"));
    CHECK(free.may_see(""));
  }

  TEST_CASE("a bad line is refused with its number") {
    const std::string good = "alice view - " + kSecretHash + "\n";
    const struct {
      std::string text, problem;
    } kCases[] = {
        {"alice view -\n", "line 1"},
        {good + "\n# note\nbob root - " + kSecretHash + "\n", "line 4: role \"root\""},
        {"alice view - " + kSecretHash.substr(1) + "\n", "64 hexadecimal digits"},
        {"alice view - " + std::string(64, 'G') + "\n", "64 hexadecimal digits"},
        {"al/ice view - " + kSecretHash + "\n", "letters, digits"},
        {good + good, "line 2: the name alice occurs twice"},
        {"alice view - " + kSecretHash + " more\n", "NAME ROLE TENANT SHA256"},
    };
    for (const auto& c : kCases) {
      CAPTURE(c.text);
      const auto read = parse_tokens(c.text, "tokens");
      REQUIRE_FALSE(read.ok());
      CHECK(read.error().kind == ErrorKind::kUsage);
      CHECK(read.error().message.find(c.problem) != std::string::npos);
    }
  }
}

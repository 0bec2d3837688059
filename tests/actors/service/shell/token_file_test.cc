// The token file: changed as a whole, by one process at a time.
#include "actors/service/shell/token_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <thread>

#include "actors/base/program/private_directory.h"

TEST_SUITE("http/token file") {
  using namespace es;
  using namespace es::actors::http;

  // A directory of its own, which is removed at the end.
  class Scratch {
   public:
    Scratch() : path_(actors::make_temporary_directory().value()) {}
    ~Scratch() { std::filesystem::remove_all(path_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    const std::filesystem::path& path() const { return path_; }

   private:
    std::filesystem::path path_;
  };

  Status add(const std::filesystem::path& file, const std::string& name) {
    return change_tokens(file, [&](std::vector<Token>& tokens) -> Status {
      tokens.push_back({{name, Role::kView, ""}, sha256_hex(name)});
      return {};
    });
  }

  TEST_CASE("changes by many threads are all kept") {
    const Scratch scratch;
    const auto file = scratch.path() / "tokens";
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 8; ++i)
        threads.emplace_back([&, i] { CHECK(add(file, "name" + std::to_string(i)).ok()); });
    }
    const auto tokens = read_tokens(file);
    REQUIRE(tokens.ok());
    CHECK(tokens->size() == 8);
    struct stat found {};
    REQUIRE(::stat(file.c_str(), &found) == 0);
    CHECK((found.st_mode & 0777) == 0600);
    CHECK(std::distance(std::filesystem::directory_iterator(scratch.path()), {}) == 1);
  }

  TEST_CASE("a change that is refused leaves the file as it was") {
    const Scratch scratch;
    const auto file = scratch.path() / "tokens";
    REQUIRE(add(file, "a").ok());
    const Status refusal = change_tokens(file, [](std::vector<Token>& tokens) -> Status {
      tokens.clear();
      return refused("no");
    });
    CHECK_FALSE(refusal.ok());
    CHECK(read_tokens(file)->size() == 1);
  }

  TEST_CASE("a place that cannot be written is an error with its name") {
    const Scratch scratch;
    const auto missing = scratch.path() / "none" / "tokens";
    const Status status = add(missing, "a");
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message.find("none") != std::string::npos);
    CHECK(read_tokens(missing).error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("tokens are long and never the same") {
    CHECK(new_token().size() == 64);
    CHECK(new_token() != new_token());
  }
}

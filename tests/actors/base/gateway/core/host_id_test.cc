#include "actors/base/gateway/core/host_id.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

namespace es::actors {
namespace {

TEST_SUITE("actors/base/gateway/host_id") {
  TEST_CASE("two processes of one host have the same id") {
    std::array<int, 2> pipe{};
    REQUIRE(::pipe(pipe.data()) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const std::string id = host_id();
      ::_exit(::write(pipe[1], id.data(), id.size()) == static_cast<ssize_t>(id.size()) ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    std::array<char, 512> buffer{};
    const ssize_t size = ::read(pipe[0], buffer.data(), buffer.size());
    ::close(pipe[0]);
    ::close(pipe[1]);
    REQUIRE(size > 0);
    CHECK(std::string(buffer.data(), static_cast<std::size_t>(size)) == host_id());
  }

  TEST_CASE("the id does not change") {
    CHECK_FALSE(host_id().empty());
    CHECK(&host_id() == &host_id());
  }
}

}  // namespace
}  // namespace es::actors

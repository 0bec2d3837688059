#include "actors/esctl/client/place_checks.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "actors/base/gateway/shell/keys.h"
#include "tests/store/temp_directory.h"

using namespace es;
using namespace es::actors;
using namespace es::actors::esctl;

namespace {

std::string all_text(const Findings& found) {
  return findings_text(found);
}

}  // namespace

TEST_SUITE("actors/esctl/client/place_checks") {
  TEST_CASE("a directory is tried, and nothing is left in it") {
    const test::TempDirectory directory;
    const Findings found = check_directory(directory.path(), "the directory", false);
    CHECK_FALSE(something_is_wrong(found));
    CHECK(all_text(found).find("renamed and read back") != std::string::npos);
    CHECK(std::filesystem::is_empty(directory.path()));
  }

  TEST_CASE("a directory that is missing is wrong, unless a daemon makes it") {
    const test::TempDirectory directory;
    const auto missing = directory / "none";
    CHECK(something_is_wrong(check_directory(missing, "directory", false)));
    CHECK_FALSE(something_is_wrong(check_directory(missing, "directory", true)));
    CHECK_FALSE(std::filesystem::exists(missing));
  }

  TEST_CASE("a file and a directory that cannot be written are wrong") {
    const test::TempDirectory directory;
    std::ofstream(directory / "file") << "x";
    CHECK(something_is_wrong(check_directory(directory / "file", "directory", true)));
    CHECK(something_is_wrong(check_directory("/proc", "directory", false)));  // for root too
  }

  TEST_CASE("keys are read, and must be closed to other users") {
    const test::TempDirectory directory;
    const auto keys = directory / "keys";
    REQUIRE(create_cluster_keys(keys).ok());
    CHECK_FALSE(something_is_wrong(check_keys(keys)));
    CHECK(all_text(check_keys(keys)).find("2 authorized keys") != std::string::npos);
    REQUIRE(::chmod((keys / "client.key").c_str(), 0644) == 0);
    const Findings found = check_keys(keys);
    CHECK(something_is_wrong(found));
    CHECK(all_text(found).find("chmod go= " + (keys / "client.key").string()) != std::string::npos);
    CHECK(something_is_wrong(check_keys(directory / "none")));
  }

  TEST_CASE("a machine with a client's key only is told what it can do") {
    const test::TempDirectory directory;
    const auto keys = directory / "keys";
    REQUIRE(create_cluster_keys(keys).ok());
    std::filesystem::remove(keys / "server.key");
    CHECK_FALSE(something_is_wrong(check_keys(keys)));
    CHECK(all_text(check_keys(keys)).find("no server.key") != std::string::npos);
  }

  TEST_CASE("an endpoint is free, taken, foreign or malformed") {
    CHECK_FALSE(something_is_wrong(check_port("tcp://127.0.0.1:*")));
    CHECK(something_is_wrong(check_port("tcp://192.0.2.1:7070")));  // an address for documents
    CHECK(something_is_wrong(check_port("udp://x")));
    const test::TempDirectory directory;
    CHECK_FALSE(something_is_wrong(check_port("ipc://" + (directory / "head.sock").string())));
  }
}

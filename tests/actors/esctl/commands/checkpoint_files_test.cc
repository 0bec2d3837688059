// esctl checkpoint ls | verify | prune on directories of checkpoints.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "store/checkpoint/checkpoint.h"
#include "tests/actors/esctl/session.h"
#include "tests/store/checkpoint/sample_checkpoint.h"
#include "tests/store/temp_directory.h"

namespace es::actors::test {
namespace {

using Json = nlohmann::json;

// Writes the checkpoints DIRECTORY/step-1, step-2 and step-3.
struct Series {
  es::test::TempDirectory directory;
  Session session;

  Series() {
    for (Version v = 1; v <= 3; ++v) {
      es::test::SampleCheckpoint sample({{"params", 5000}});
      sample.head.version = v;
      REQUIRE(sample.write(step(v)).ok());
    }
  }
  std::filesystem::path step(Version v) const { return directory / ("step-" + std::to_string(v)); }
  void damage(Version v) { es::test::flip_bit(step(v) / "data", 2500, 1); }
  int run(const std::string& what, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"checkpoint", what, directory.path().string()};
    words.insert(words.end(), more.begin(), more.end());
    return session.run(words);
  }
  Json json() const { return Json::parse(session.out()); }
};

}  // namespace

TEST_SUITE("actors/esctl/checkpoint_files") {
  TEST_CASE("ls shows every checkpoint with its step") {
    Series series;
    CHECK(series.run("ls") == 0);
    CHECK(series.session.out().find(series.step(2).string()) != std::string::npos);
    CHECK(series.run("ls", {"--json"}) == 0);
    REQUIRE(series.json().at("checkpoints").size() == 3);
    CHECK(series.json()["checkpoints"][2]["version"] == 3);
    CHECK(series.json()["checkpoints"][2]["state"] == "complete");
    CHECK(series.session.run({"checkpoint", "ls", "/nonexistent/x"}) == 3);
  }

  TEST_CASE(
      "verify reads every block; for a bad one it exits with 1 and names the file and the block") {
    Series series;
    CHECK(series.run("verify") == 0);
    CHECK(series.session.out().find("verified") != std::string::npos);
    series.damage(2);
    CHECK(series.run("verify", {"--json"}) == 1);
    CHECK(series.session.err().find("step-2/data: damaged: section \"params\", block 0") !=
          std::string::npos);
    CHECK(series.json()["checkpoints"][1]["state"] == "damaged");
    CHECK(series.json()["checkpoints"][0]["state"] == "verified");
    CHECK(series.session.run({"checkpoint", "verify", series.step(3).string()}) == 0);
    CHECK(series.session.run({"checkpoint", "verify", "/nonexistent"}) == 3);
  }

  TEST_CASE("prune keeps the newest undamaged ones") {
    Series series;
    series.damage(3);
    CHECK(series.run("prune", {"--keep", "1", "--json"}) == 1);
    CHECK(series.json()["removed"].size() == 1);
    CHECK(series.json()["kept"][0]["version"] == 2);
    CHECK(series.json()["damaged"][0]["path"] == series.step(3).string());
    CHECK_FALSE(std::filesystem::exists(series.step(1)));
    CHECK(std::filesystem::exists(series.step(2)));
    CHECK(std::filesystem::exists(series.step(3)));
  }

  TEST_CASE("prune skips a symbolic link with a note, and its target stays") {
    namespace fs = std::filesystem;
    Series series;
    fs::create_directory_symlink("step-1", series.directory / "latest");
    CHECK(series.run("prune", {"--keep", "2", "--json"}) == 0);
    CHECK(series.json()["removed"].size() == 1);
    REQUIRE(series.json()["skipped"].size() == 1);
    const std::string skipped = series.json()["skipped"][0];
    CHECK(skipped.find("latest: a symbolic link, which is not followed") != std::string::npos);
    CHECK(fs::is_symlink(fs::symlink_status(series.directory / "latest")));

    Series other;
    es::test::TempDirectory kept;
    fs::rename(other.step(1), kept / "step-1");
    fs::create_directory_symlink(kept / "step-1", other.step(1));
    CHECK(other.run("prune", {"--keep", "1"}) == 0);
    CHECK(other.session.out().find("skipped " + other.step(1).string()) != std::string::npos);
    CHECK(fs::exists(kept / "step-1/data"));
    CHECK_FALSE(fs::exists(other.step(2)));
    CHECK(fs::exists(other.step(3)));
  }

  TEST_CASE("prune leaves files that a user added, with a note") {
    Series series;
    es::test::write_file(series.step(1) / "notes.txt", "mine");
    CHECK(series.run("prune", {"--keep", "1"}) == 0);
    CHECK(series.session.out().find(series.step(1).string() +
                                    ": other files stay in it: notes.txt") != std::string::npos);
    CHECK(es::test::read_file(series.step(1) / "notes.txt") == "mine");
    CHECK_FALSE(std::filesystem::exists(series.step(1) / "data"));
    CHECK_FALSE(std::filesystem::exists(series.step(2)));
    CHECK(series.run("ls", {"--json"}) == 0);
    CHECK(series.json()["checkpoints"].size() == 1);
  }

  TEST_CASE("a dry run prints what would be removed, and removes nothing") {
    Series series;
    std::filesystem::create_directory(series.directory / ".step-9.partial-999999999-0");
    CHECK(series.run("prune", {"--keep", "1", "--dry-run", "--json"}) == 0);
    CHECK(series.json()["dry_run"] == true);
    CHECK(series.json()["removed"].size() == 2);
    CHECK(series.json()["unfinished_removed"] == 1);
    CHECK(series.run("prune", {"--keep", "1", "--dry-run"}) == 0);
    CHECK(series.session.out().find("would remove " + series.step(1).string()) !=
          std::string::npos);
    for (Version v = 1; v <= 3; ++v) CHECK(std::filesystem::exists(series.step(v) / "data"));
    CHECK(std::filesystem::exists(series.directory / ".step-9.partial-999999999-0"));
  }

  TEST_CASE("wrong arguments are usage errors, and remove nothing") {
    Series series;
    CHECK(series.run("prune", {"--keep", "0"}) == 2);
    CHECK(series.run("prune") == 2);
    CHECK(series.session.run({"checkpoint", "prune", series.step(1).string(), "--keep", "1"}) == 2);
    CHECK(series.session.run({"checkpoint"}) == 2);
    CHECK(series.run("ls") == 0);
    CHECK(series.session.out().find("step-1") != std::string::npos);
  }
}

}  // namespace es::actors::test

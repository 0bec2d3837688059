#include "actors/worker/device/version_writer.h"

#include <doctest/doctest.h>

#include <future>
#include <random>

#include "actors/worker/state/version_io.h"
#include "tests/actors/worker/state/small_engine.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

namespace es::actors::worker {
namespace {

namespace fs = std::filesystem;

using test::advance;

JobSpec spec() {
  return test::small_job("writer", "resnet18", 2);
}
std::unique_ptr<gpu::Engine> engine() {
  return test::small_engine(spec());
}
Snapshot snapshot_of(const gpu::Engine& e) {
  return test::snapshot_of(e, spec());
}

}  // namespace

TEST_SUITE("actors/worker/state_writer") {
  TEST_CASE("checkpoints that are written during updates contain the requested versions") {
    constexpr int kVersions = 12;
    const es::test::TempDirectory directory;
    std::mt19937_64 random(es::test::seed("updates while a version is written"));
    const auto source = engine();
    std::vector<CheckpointFinished> finished;
    std::promise<void> all;
    std::vector<VersionDigests> expected;
    {
      VersionWriter writer([&](CheckpointFinished done) {
        finished.push_back(std::move(done));
        if (finished.size() == kVersions) all.set_value();
      });
      for (int n = 0; n < kVersions; ++n) {
        expected.push_back(digests_of(*source));
        const Snapshot snapshot = snapshot_of(*source);
        writer.write(snapshot, {.request = static_cast<std::uint64_t>(n),
                                .directory = (directory / std::to_string(n)).string()});
        // Some are thawed at once, some while they are written, some when they are nearly written.
        for (std::uint64_t turn = random() % 5 * 1000; turn > 0; --turn) std::this_thread::yield();
        snapshot.replica->thaw();
        advance(*source);
      }
      all.get_future().wait();
    }
    for (int n = 0; n < kVersions; ++n) {
      CAPTURE(n);
      CHECK(finished[n].error == "");
      CHECK(finished[n].request == static_cast<std::uint64_t>(n));
      CHECK(finished[n].version == static_cast<Version>(n));
      CHECK(finished[n].digests == expected[n]);
      const auto loaded = engine();
      REQUIRE(load_checkpoint(*loaded, spec(), finished[n].path).ok());
      CHECK(digests_of(*loaded) == expected[n]);
    }
  }

  TEST_CASE("a failed write reports why, and the next one succeeds") {
    const es::test::TempDirectory directory;
    const auto source = engine();
    std::vector<CheckpointFinished> finished;
    std::promise<void> both;
    VersionWriter writer([&](CheckpointFinished done) {
      finished.push_back(std::move(done));
      if (finished.size() == 2) both.set_value();
    });
    const Snapshot lost = snapshot_of(*source);
    writer.write(lost, {.request = 7, .directory = (directory / "none/c").string()});
    writer.write(snapshot_of(*source), {.request = 8, .directory = (directory / "c").string()});
    both.get_future().wait();
    CHECK(finished[0].request == 7);
    CHECK(finished[0].error_kind == ErrorKind::kNotFound);
    CHECK(finished[0].error.find("none") != std::string::npos);
    CHECK(finished[1].error == "");
    std::byte first;
    // Function thaw() has nothing to copy.
    CHECK_FALSE(lost.replica->read(0, 0, {&first, 1}).ok());
  }

  TEST_CASE("a writer that ends leaves no incomplete checkpoint") {
    const es::test::TempDirectory directory;
    const auto source = engine();
    for (int n = 0; n < 20; ++n) {
      const fs::path parent = directory / std::to_string(n);
      fs::create_directory(parent);
      int reports = 0;
      {
        VersionWriter writer([&](const CheckpointFinished&) { ++reports; });
        for (const char* name : {"a", "b"})
          writer.write(snapshot_of(*source), {.directory = (parent / name).string()});
        for (int turn = 0; turn < n * 20; ++turn) std::this_thread::yield();
      }
      for (const auto& entry : fs::directory_iterator(parent)) {
        CHECK(load_checkpoint(*engine(), spec(), entry.path()).ok());
        --reports;
      }
      CHECK(reports <= 0);
    }
  }
}

}  // namespace es::actors::worker

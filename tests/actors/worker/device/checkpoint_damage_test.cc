// A real checkpoint of a few MiB, damaged in every way. The worker that loads it finds every
// damage. ES_FLIPS is the number of bits that are flipped, one at a time.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "actors/worker/device/periodic_checkpoint.h"
#include "actors/worker/state/version_io.h"
#include "store/checkpoint/catalog.h"
#include "tests/actors/worker/state/small_engine.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

namespace es::actors::worker {
namespace {

namespace fs = std::filesystem;

constexpr int kFlipsDefault = 500;
constexpr const char* kFiles[] = {"data", "manifest", "job.toml"};

JobSpec spec() {
  return test::small_job("damage", "resnet18", 3);
}
std::unique_ptr<gpu::Engine> engine() {
  return test::small_engine(spec());
}
Snapshot snapshot_of(const gpu::Engine& e) {
  return test::snapshot_of(e, spec());
}

int flips() {
  const char* text = std::getenv("ES_FLIPS");
  return text == nullptr ? kFlipsDefault : std::atoi(text);
}

}  // namespace

TEST_SUITE("actors/worker/checkpoint_damage") {
  TEST_CASE("every flipped bit is found at load") {
    const es::test::TempDirectory directory;
    const auto source = engine();
    const auto written = write_periodic(snapshot_of(*source), directory.path());
    REQUIRE(written.ok());
    const fs::path path = written->path;
    const auto target = engine();
    REQUIRE(load_checkpoint(*target, spec(), path).ok());
    std::mt19937_64 random(es::test::seed("bit flips in a checkpoint"));
    int found = 0;
    const int wanted = flips();
    for (int i = 0; i < wanted; ++i) {
      const fs::path file = path / kFiles[i % 4 == 3 ? 0 : i % 3];
      const std::uint64_t offset = random() % fs::file_size(file);
      const int bit = static_cast<int>(random() % 8);
      CAPTURE(file.string());
      CAPTURE(offset);
      es::test::flip_bit(file, offset, bit);
      const Status loaded = load_checkpoint(*target, spec(), path);
      REQUIRE_FALSE(loaded.ok());
      found += loaded.error().message.find(file.string()) != std::string::npos;
      es::test::flip_bit(file, offset, bit);
    }
    CHECK(found == wanted);
    CHECK(load_checkpoint(*target, spec(), path).ok());
  }

  TEST_CASE("a file that is cut at any 4 KiB is found at load") {
    const es::test::TempDirectory directory;
    const auto source = engine();
    const auto written = write_periodic(snapshot_of(*source), directory.path());
    REQUIRE(written.ok());
    const fs::path path = written->path;
    const auto target = engine();
    for (const char* name : kFiles) {
      const fs::path file = path / name;
      const std::string whole = es::test::read_file(file);
      for (std::size_t cut = (whole.size() - 1) / 4096 * 4096 + 4096; cut > 0;) {
        cut -= 4096;
        fs::resize_file(file, cut);
        CAPTURE(name);
        CAPTURE(cut);
        REQUIRE_FALSE(load_checkpoint(*target, spec(), path).ok());
      }
      es::test::write_file(file, whole);
    }
    CHECK(load_checkpoint(*target, spec(), path).ok());
  }

  TEST_CASE("the series uses a whole checkpoint that exists, and writes beside a damaged one") {
    const es::test::TempDirectory directory;
    const auto source = engine();
    const fs::path parent = directory / "jobs/one";
    const auto write = [&] { return write_periodic(snapshot_of(*source), parent); };
    const fs::path first = write().value().path;
    CHECK(first == parent / "step-0");
    CHECK(write()->path == first);
    es::test::flip_bit(first / "data", 99, 1);
    const fs::path second = write().value().path;
    CHECK(second == parent / "step-0-2");
    CHECK(write()->path == second);
    const auto all = store::list_checkpoints(parent, true);
    REQUIRE(all.ok());
    REQUIRE(all->entries.size() == 2);
    CHECK_FALSE(all->entries[0].damage.empty());
    CHECK(all->entries[1].damage.empty());
  }
}

}  // namespace es::actors::worker

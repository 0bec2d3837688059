#include "actors/worker/version_io.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "actors/config/job_file.h"
#include "actors/worker/gradient_store.h"

using namespace es;
using namespace es::actors;
using namespace es::actors::worker;

namespace {

JobSpec spec() {
  JobSpec s;
  s.name = "io";
  s.max_p = 2;
  s.batch_size = 2;
  s.steps = 4;
  s.model.name = "small_cnn";
  s.model.width = 4;
  return s;
}

std::unique_ptr<gpu::Engine> engine(const JobSpec& s) {
  auto made = gpu::Engine::create(s, {8, 8, 1}, {.cpu_class = CpuClass::kScalar});
  REQUIRE(made.ok());
  (*made)->init_replica();
  return *std::move(made);
}

// Two steps with gradients that differ by element, so that momentum and statistics are not zero.
void advance(gpu::Engine& e) {
  std::vector<float> gradient(static_cast<std::size_t>(e.table().total_floats()));
  for (int step = 0; step < 2; ++step) {
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = 0.01F * static_cast<float>(i % 17) - 0.05F;
    std::vector<const float*> reduced;
    for (const gpu::Bucket& b : e.buckets()) reduced.push_back(gradient.data() + b.begin);
    std::vector<gpu::EstContext> next = e.replica().contexts;
    for (gpu::EstContext& context : next) {
      ++context.version;
      for (float& stat : context.stats) stat += 0.25F;
    }
    REQUIRE(e.apply_update(reduced, next).ok());
  }
}

class TempDirectory {
 public:
  TempDirectory()
      : path_(std::filesystem::temp_directory_path() / ("es-io-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

Snapshot snapshot_of(const gpu::Engine& e) {
  return {spec().name, to_toml(spec()), digests_of(e), e.replica()};
}

}  // namespace

TEST_SUITE("actors/worker/version_io") {
  TEST_CASE("a version comes back from a checkpoint with every byte") {
    const TempDirectory directory;
    auto source = engine(spec());
    advance(*source);
    REQUIRE(write_snapshot(snapshot_of(*source), directory / "c").ok());
    auto target = engine(spec());
    CHECK(digests_of(*target) != digests_of(*source));
    REQUIRE(load_checkpoint(*target, 2, directory / "c").ok());
    CHECK(target->replica().version == 2);
    CHECK(digests_of(*target) == digests_of(*source));
  }

  TEST_CASE("a checkpoint of another model is refused and changes nothing") {
    const TempDirectory directory;
    auto source = engine(spec());
    REQUIRE(write_snapshot(snapshot_of(*source), directory / "c").ok());
    JobSpec wider = spec();
    wider.model.width = 8;
    auto target = engine(wider);
    const auto before = digests_of(*target);
    CHECK_FALSE(load_checkpoint(*target, 2, directory / "c").ok());
    CHECK(digests_of(*target) == before);
  }

  TEST_CASE("a peer catches up through shared memory, and a wrong digest is noticed") {
    auto source = engine(spec());
    advance(*source);
    auto segment = Segment::create("es.io-test.1.1.version", export_bytes(*source));
    REQUIRE(segment.ok());
    protocol::State state = export_version(*source, **segment);
    auto target = engine(spec());
    SegmentCache cache;
    REQUIRE(import_version(*target, state, cache).ok());
    CHECK(digests_of(*target) == digests_of(*source));

    auto other = engine(spec());
    const auto before = digests_of(*other);
    (*segment)->data()[12] ^= std::byte{1};
    CHECK_FALSE(import_version(*other, state, cache).ok());
    CHECK(digests_of(*other) == before);
  }

  TEST_CASE("gradient memory is one address per slot, and peers find it by name") {
    GradientStore store("gs-" + std::to_string(::getpid()), {3}, {1}, 64);
    const auto slot = store.slot(0);
    REQUIRE(slot.ok());
    CHECK(*store.slot(0) == *slot);
    CHECK(*store.slot(1) != *slot);
    (*slot)[16] = 1.5F;
    SegmentCache cache;
    const protocol::Bulk bulk = store.slot_bulk(0, 16, 32);
    CHECK(bulk.bytes == 128);
    const auto read = cache.read(bulk.segment, bulk.offset, bulk.bytes);
    REQUIRE(read.ok());
    CHECK(*reinterpret_cast<const float*>(read->data()) == 1.5F);
    REQUIRE(store.sum(2, 8).ok());
    CHECK(store.sum_bulk(2).bytes >= 32);
  }
}

#include "actors/worker/state/version_io.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "actors/worker/device/gradient_store.h"
#include "tests/actors/worker/state/small_engine.h"
#include "tests/store/temp_directory.h"

using namespace es;
using namespace es::actors;
using namespace es::actors::worker;

namespace {

JobSpec spec() {
  return worker::test::small_job("io", "small_cnn", 2);
}

std::vector<JobSpec> optimizers() {
  std::vector<JobSpec> jobs(3, spec());
  jobs[0].optimizer.momentum = 0.0;
  jobs[2].optimizer.kind = "adamw";
  return jobs;
}

std::unique_ptr<gpu::Engine> engine(const JobSpec& s) {
  return worker::test::small_engine(s);
}
Snapshot snapshot_of(const gpu::Engine& e) {
  return worker::test::snapshot_of(e, spec());
}

void advance_twice(gpu::Engine& e) {
  for (int step = 0; step < 2; ++step) worker::test::advance(e);
}

// They differ from those of every engine in this file.
KernelRecord other_kernels() {
  return {.level = DeterminismLevel::kD1,
          .device_type = {"cpu-avx2"},
          .library = "oneDNN 1.2.3",
          .operators = {"conv1 (conv2d): jit:avx2"}};
}

}  // namespace

TEST_SUITE("actors/worker/state/version_io") {
  // Optimizers without an array, with one, and with two.
  TEST_CASE("a version of any optimizer is read from a checkpoint with every byte") {
    for (const JobSpec& job : optimizers()) {
      const es::test::TempDirectory directory;
      auto source = engine(job);
      advance_twice(*source);
      REQUIRE(write_snapshot(snapshot_of(*source), directory / "c").ok());
      auto target = engine(job);
      CHECK(digests_of(*target) != digests_of(*source));
      REQUIRE(load_checkpoint(*target, spec(), directory / "c").ok());
      CHECK(target->replica().version == 2);
      CHECK(digests_of(*target) == digests_of(*source));
    }
  }

  TEST_CASE("a checkpoint of another optimizer is refused and changes nothing") {
    const es::test::TempDirectory directory;
    auto source = engine(spec());
    REQUIRE(write_snapshot(snapshot_of(*source), directory / "c").ok());
    auto target = engine(optimizers().back());
    const auto before = digests_of(*target);
    CHECK_FALSE(load_checkpoint(*target, spec(), directory / "c").ok());
    CHECK(digests_of(*target) == before);
  }

  TEST_CASE("a checkpoint of another model is refused and changes nothing") {
    const es::test::TempDirectory directory;
    auto source = engine(spec());
    REQUIRE(write_snapshot(snapshot_of(*source), directory / "c").ok());
    JobSpec wider = spec();
    wider.model.width = 8;
    auto target = engine(wider);
    const auto before = digests_of(*target);
    CHECK_FALSE(load_checkpoint(*target, spec(), directory / "c").ok());
    CHECK(digests_of(*target) == before);
  }

  TEST_CASE("a checkpoint names the kernels that computed it") {
    const es::test::TempDirectory directory;
    auto source = engine(spec());
    Snapshot snapshot = snapshot_of(*source);
    snapshot.kernels = other_kernels();
    REQUIRE(write_snapshot(snapshot, directory / "c").ok());
    const auto reader = store::CheckpointReader::open(directory / "c");
    REQUIRE(reader.ok());
    CHECK(read_kernel_record(*reader, "c").value() == other_kernels());
  }

  TEST_CASE("a checkpoint of other kernels is refused at D1, changes nothing, and is taken at D2") {
    const es::test::TempDirectory directory;
    auto source = engine(spec());
    advance_twice(*source);
    Snapshot snapshot = snapshot_of(*source);
    snapshot.kernels = other_kernels();
    REQUIRE(write_snapshot(snapshot, directory / "c").ok());

    JobSpec job = spec();
    job.level = DeterminismLevel::kD1;
    auto target = engine(job);
    const auto before = digests_of(*target);
    const Status refused = load_checkpoint(*target, job, directory / "c");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kRefused);
    CHECK(refused.error().message ==
          (directory / "c").string() +
              ": computed with oneDNN 1.2.3 on cpu-avx2; this worker computes with canonical "
              "kernels on cpu-scalar; at level D1 only the same kernels are allowed, because "
              "others give other bits; at level D2 a job continues with any kernels");
    CHECK(digests_of(*target) == before);

    job.level = DeterminismLevel::kD2;
    target = engine(job);
    REQUIRE(load_checkpoint(*target, job, directory / "c").ok());
    CHECK(digests_of(*target) == digests_of(*source));
  }

  TEST_CASE("a checkpoint without a kernel record continues at D2 only") {
    const es::test::TempDirectory directory;
    auto source = engine(spec());
    REQUIRE(write_snapshot(snapshot_of(*source), directory / "c").ok());
    const auto reader = store::CheckpointReader::open(directory / "c");
    std::vector<std::vector<std::byte>> bytes;
    std::vector<store::Section> sections;
    for (const store::SectionInfo& section : reader->manifest().sections)
      if (section.name != kKernelsSection) {
        bytes.push_back(reader->read(section.name).value());
        sections.push_back(store::section_of(section.name, bytes.back()));
      }
    REQUIRE(store::write_checkpoint(store::posix_file_system(), directory / "w",
                                    {reader->head(), reader->job_toml(), sections})
                .ok());
    for (const auto level : {DeterminismLevel::kD0, DeterminismLevel::kD1, DeterminismLevel::kD2}) {
      JobSpec job = spec();
      job.level = level;
      CHECK(load_checkpoint(*engine(job), job, directory / "w").ok() ==
            (level == DeterminismLevel::kD2));
    }
  }

  TEST_CASE("a version whose parameters differ from the ledger is not written") {
    const es::test::TempDirectory directory;
    auto source = engine(spec());
    Snapshot snapshot = snapshot_of(*source);
    snapshot.params->low ^= 1;
    const auto written = write_snapshot(snapshot, directory / "c");
    REQUIRE_FALSE(written.ok());
    CHECK(written.error().message.find("version 0: parameters have digest ") == 0);
    CHECK(std::filesystem::is_empty(directory.path()));
  }

  TEST_CASE("a version is kept under the first free name, and once") {
    const es::test::TempDirectory directory;
    auto source = engine(spec());
    CHECK(keep_snapshot(snapshot_of(*source), directory / "k")->path == directory / "k");
    advance_twice(*source);
    const auto keep = [&](const std::filesystem::path& path) {
      return keep_snapshot(snapshot_of(*source), path);
    };
    CHECK(keep(directory / "k")->path == directory / "k-2");
    const auto again = keep(directory / "k");
    CHECK(again->path == directory / "k-2");
    CHECK(again->digests == digests_of(*source));
    CHECK_FALSE(std::filesystem::exists(directory / "k-3"));
    CHECK(keep(directory / "none" / "k").error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("a peer catches up through shared memory, and finds a wrong digest") {
    const std::string label = "es.io-test-" + std::to_string(::getpid()) + ".1.1.version";
    for (const JobSpec& job : optimizers()) {
      auto source = engine(job);
      advance_twice(*source);
      auto segment = Segment::create(label, export_bytes(*source));
      REQUIRE(segment.ok());
      protocol::State state = export_version(*source, **segment);
      auto target = engine(job);
      SegmentCache cache;
      REQUIRE(import_version(*target, spec(), state, cache).ok());
      CHECK(digests_of(*target) == digests_of(*source));

      // In the last array: the parameters, or the last array of the optimizer.
      auto other = engine(job);
      const auto before = digests_of(*other);
      const std::uint64_t array = (*segment)->bytes() / (1 + state.moments.size());
      (*segment)->data()[(*segment)->bytes() - array] ^= std::byte{1};
      CHECK_FALSE(import_version(*other, spec(), state, cache).ok());
      CHECK(digests_of(*other) == before);
    }
  }

  JobSpec adapted_job(std::uint64_t seed) {
    JobSpec job = worker::test::small_job("io", "mlp", 2);
    job.seed = seed;
    job.lora = {.rank = 2, .targets = {"net.*"}};
    job.optimizer.ema = 0.5;
    return job;
  }

  TEST_CASE("a version of a job with adapters has only these, and needs the base of the job") {
    const es::test::TempDirectory directory;
    const JobSpec job = adapted_job(1);
    auto source = engine(job);
    advance_twice(*source);
    const std::int64_t kept = source->kept_floats();
    CHECK(kept < source->table().total_floats() / 2);
    const auto written =
        write_snapshot(worker::test::snapshot_of(*source, job), directory / "adapters");
    REQUIRE(written.ok());
    CHECK(written->digests == digests_of(*source));
    const auto reader = store::CheckpointReader::open(directory / "adapters");
    REQUIRE(reader.ok());
    for (const char* section : {"params", "moment/0", "moment/1"})
      CHECK(reader->find(section)->bytes == static_cast<std::uint64_t>(kept) * sizeof(float));

    // An engine that has no replica yet gets its base from the job.
    auto target = worker::test::empty_engine(job);
    const Status loaded = load_checkpoint(*target, job, directory / "adapters");
    REQUIRE_MESSAGE(loaded.ok(), (loaded.ok() ? "" : loaded.error().message));
    CHECK(digests_of(*target) == digests_of(*source));

    const JobSpec other = adapted_job(2);
    auto stranger = worker::test::empty_engine(other);
    const Status refused = load_checkpoint(*stranger, other, directory / "adapters");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kRefused);
    const std::string message = refused.error().message;
    CHECK_MESSAGE(message.starts_with("model mlp: the base has the digest "), message);
    CHECK(message.find(source->frozen_digest().hex() + ", beside which the adapters of ") !=
          std::string::npos);
  }

  TEST_CASE("a peer gets only the adapters") {
    const JobSpec job = adapted_job(1);
    auto source = engine(job);
    advance_twice(*source);
    auto segment = Segment::create("es.io-test-" + std::to_string(::getpid()) + ".1.1.version",
                                   export_bytes(*source));
    REQUIRE(segment.ok());
    CHECK((*segment)->bytes() == 3 * static_cast<std::uint64_t>(source->kept_floats()) * 4);
    const protocol::State state = export_version(*source, **segment);
    auto target = worker::test::empty_engine(job);
    SegmentCache cache;
    REQUIRE(import_version(*target, job, state, cache).ok());
    CHECK(digests_of(*target) == digests_of(*source));
  }

  TEST_CASE("a version with another number of optimizer arrays is refused") {
    auto source = engine(spec());
    auto segment = Segment::create("es.io-test-" + std::to_string(::getpid()) + ".1.1.version",
                                   export_bytes(*source));
    REQUIRE(segment.ok());
    protocol::State state = export_version(*source, **segment);
    state.moments.clear();
    SegmentCache cache;
    CHECK_FALSE(import_version(*source, spec(), state, cache).ok());
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

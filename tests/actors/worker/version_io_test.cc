#include "actors/worker/version_io.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "actors/config/job_file.h"
#include "actors/worker/gradient_store.h"
#include "actors/worker/snapshot.h"

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

std::vector<JobSpec> optimizers() {
  std::vector<JobSpec> jobs(3, spec());
  jobs[0].optimizer.momentum = 0.0;
  jobs[2].optimizer.kind = "adamw";
  return jobs;
}

std::unique_ptr<gpu::Engine> engine(const JobSpec& s) {
  const SampleLayout layout{{{.name = "image", .height = 8, .width = 8},
                             {.name = "label", .type = FieldType::kI32, .high = 9}}};
  auto made = gpu::Engine::create(s, layout, {.cpu_class = CpuClass::kScalar});
  REQUIRE(made.ok());
  REQUIRE((*made)->init_replica().ok());
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
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

Snapshot snapshot_of(const gpu::Engine& e) {
  return {.job_name = spec().name,
          .job_toml = to_toml(spec()),
          .kernels = kernel_record(e, spec().level),
          .params = e.params_digest(),
          .table = &e.table(),
          .replica = std::make_shared<gpu::FrozenReplica>(e.replica())};
}

// Not those of any engine here.
KernelRecord other_kernels() {
  return {.level = DeterminismLevel::kD1,
          .device_type = {"cpu-avx2"},
          .library = "oneDNN 1.2.3",
          .operators = {"conv1 (conv2d): jit:avx2"}};
}

}  // namespace

TEST_SUITE("actors/worker/version_io") {
  // Without, with one, and with two arrays of the optimizer's.
  TEST_CASE("a version of any optimizer comes back from a checkpoint with every byte") {
    for (const JobSpec& job : optimizers()) {
      const TempDirectory directory;
      auto source = engine(job);
      advance(*source);
      REQUIRE(write_snapshot(snapshot_of(*source), directory / "c").ok());
      auto target = engine(job);
      CHECK(digests_of(*target) != digests_of(*source));
      REQUIRE(load_checkpoint(*target, spec(), directory / "c").ok());
      CHECK(target->replica().version == 2);
      CHECK(digests_of(*target) == digests_of(*source));
    }
  }

  TEST_CASE("a checkpoint of another optimizer is refused and changes nothing") {
    const TempDirectory directory;
    auto source = engine(spec());
    REQUIRE(write_snapshot(snapshot_of(*source), directory / "c").ok());
    auto target = engine(optimizers().back());
    const auto before = digests_of(*target);
    CHECK_FALSE(load_checkpoint(*target, spec(), directory / "c").ok());
    CHECK(digests_of(*target) == before);
  }

  TEST_CASE("a checkpoint of another model is refused and changes nothing") {
    const TempDirectory directory;
    auto source = engine(spec());
    REQUIRE(write_snapshot(snapshot_of(*source), directory / "c").ok());
    JobSpec wider = spec();
    wider.model.width = 8;
    auto target = engine(wider);
    const auto before = digests_of(*target);
    CHECK_FALSE(load_checkpoint(*target, spec(), directory / "c").ok());
    CHECK(digests_of(*target) == before);
  }

  TEST_CASE("a checkpoint says what computed it") {
    const TempDirectory directory;
    auto source = engine(spec());
    Snapshot snapshot = snapshot_of(*source);
    snapshot.kernels = other_kernels();
    REQUIRE(write_snapshot(snapshot, directory / "c").ok());
    const auto reader = store::CheckpointReader::open(directory / "c");
    REQUIRE(reader.ok());
    CHECK(read_kernel_record(*reader, "c").value() == other_kernels());
  }

  TEST_CASE("a checkpoint of other kernels is refused at D1, changes nothing, and is taken at D2") {
    const TempDirectory directory;
    auto source = engine(spec());
    advance(*source);
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
              "kernels on cpu-scalar; at level D1 allowed are the same kernels, since others give "
              "other bits; level D2 goes on anywhere");
    CHECK(digests_of(*target) == before);

    job.level = DeterminismLevel::kD2;
    target = engine(job);
    REQUIRE(load_checkpoint(*target, job, directory / "c").ok());
    CHECK(digests_of(*target) == digests_of(*source));
  }

  TEST_CASE("a checkpoint that does not say what computed it goes on at D2 only") {
    const TempDirectory directory;
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

  TEST_CASE("a version whose parameters are not the ledger's is not written") {
    const TempDirectory directory;
    auto source = engine(spec());
    Snapshot snapshot = snapshot_of(*source);
    snapshot.params->low ^= 1;
    const auto written = write_snapshot(snapshot, directory / "c");
    REQUIRE_FALSE(written.ok());
    CHECK(written.error().message.find("version 0: parameters have digest ") == 0);
    CHECK(std::filesystem::is_empty(directory.path()));
  }

  TEST_CASE("a version is kept under the first free name, and once") {
    const TempDirectory directory;
    auto source = engine(spec());
    CHECK(keep_snapshot(snapshot_of(*source), directory / "k")->path == directory / "k");
    advance(*source);
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

  TEST_CASE("a peer catches up through shared memory, and a wrong digest is noticed") {
    const std::string label = "es.io-test-" + std::to_string(::getpid()) + ".1.1.version";
    for (const JobSpec& job : optimizers()) {
      auto source = engine(job);
      advance(*source);
      auto segment = Segment::create(label, export_bytes(*source));
      REQUIRE(segment.ok());
      protocol::State state = export_version(*source, **segment);
      auto target = engine(job);
      SegmentCache cache;
      REQUIRE(import_version(*target, state, cache).ok());
      CHECK(digests_of(*target) == digests_of(*source));

      // In the last array: the parameters, or the last of the optimizer's.
      auto other = engine(job);
      const auto before = digests_of(*other);
      const std::uint64_t array = (*segment)->bytes() / (1 + state.moments.size());
      (*segment)->data()[(*segment)->bytes() - array] ^= std::byte{1};
      CHECK_FALSE(import_version(*other, state, cache).ok());
      CHECK(digests_of(*other) == before);
    }
  }

  TEST_CASE("a version with another number of optimizer arrays is refused") {
    auto source = engine(spec());
    auto segment = Segment::create("es.io-test-" + std::to_string(::getpid()) + ".1.1.version",
                                   export_bytes(*source));
    REQUIRE(segment.ok());
    protocol::State state = export_version(*source, **segment);
    state.moments.clear();
    SegmentCache cache;
    CHECK_FALSE(import_version(*source, state, cache).ok());
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

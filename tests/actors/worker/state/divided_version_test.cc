// Versions whose moments are divided among workers: their checkpoints, and the pieces that workers
// get from each other.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "actors/worker/state/version_io.h"
#include "gpu/est/est_context.h"
#include "store/checkpoint/layout.h"
#include "tests/actors/worker/state/small_engine.h"
#include "tests/store/temp_directory.h"

namespace es::actors::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBucketBytes = 100'000;

// Sections of several blocks of a checkpoint.
JobSpec large_spec() {
  JobSpec s = test::small_job("divided", "resnet18", 2);
  s.model.width = 16;
  s.optimizer.kind = "adam";
  s.optimizer.ema = 0.5;
  return s;
}

JobSpec adapted_spec() {
  JobSpec s = test::small_job("divided", "mlp", 2);
  s.lora = {.rank = 2, .targets = {"net.*"}};
  s.optimizer.kind = "adamw";
  return s;
}

// The same network without the meaning of adapters: a version keeps the frozen parameters.
JobSpec frozen_spec() {
  JobSpec s = adapted_spec();
  s.lora = {};
  return s;
}

std::unique_ptr<gpu::Engine> empty_engine(const JobSpec& spec) {
  if (spec.model.name != "mlp") return test::empty_engine(spec, kBucketBytes);
  const SampleLayout layout{{{.name = "image", .height = 8, .width = 8, .channels = 1},
                             {.name = "label", .type = FieldType::kI32, .high = 9}}};
  auto graph = JobModel::open(spec.model)->graph(adapted_spec(), layout);
  auto made = gpu::Engine::create(spec, *std::move(graph), {.bucket_bytes = 16});
  REQUIRE(made.ok());
  REQUIRE(((*made)->kept_floats() == (*made)->table().trained_floats()) == (spec.lora.rank != 0));
  return *std::move(made);
}

std::vector<JobSpec> specs() {
  return {large_spec(), adapted_spec(), frozen_spec()};
}

// Workers of one job: worker b and the next one (modulo their number) hold the moments of bucket b.
class Workers {
 public:
  Workers(const JobSpec& spec, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      engines_.push_back(empty_engine(spec));
      REQUIRE(engines_[i]->hold(held_by(i, 0)).ok());
      REQUIRE(engines_[i]->init_replica().ok());
    }
  }

  gpu::Engine& operator[](std::size_t i) { return *engines_[i]; }
  std::size_t size() const { return engines_.size(); }

  std::vector<std::uint32_t> held_by(std::size_t worker, std::size_t shift) const {
    std::vector<std::uint32_t> held;
    const std::size_t n = std::max<std::size_t>(engines_.size(), 3);
    for (std::uint32_t b = 0; b < engines_[0]->buckets().size(); ++b)
      if ((b + shift) % n == worker || (b + shift + 1) % n == worker) held.push_back(b);
    return held;
  }

  gpu::Engine& holder(std::uint32_t bucket) {
    return **std::ranges::find_if(engines_, [&](const auto& e) { return e->holds(bucket); });
  }

  void advance() {
    const test::Update update(*engines_[0]);
    for (const auto& e : engines_) REQUIRE(e->update_held(update.sums(*e), {}).ok());
    for (std::uint32_t b = 0; b < engines_[0]->buckets().size(); ++b)
      for (const auto& e : engines_)
        if (!e->holds(b)) e->replace_params(b, holder(b).bucket_params(b).data());
    for (const auto& e : engines_) REQUIRE(e->commit_update(update.next).ok());
  }

  // Supplies the moments that a worker does not hold from one that does.
  OtherMoments other() {
    return [this](std::size_t moment, std::uint32_t bucket, std::int64_t offset,
                  std::span<float> out) {
      const gpu::Engine& from = holder(bucket);
      std::copy_n(from.replica().moments[moment].data() + from.buckets()[bucket].begin + offset,
                  out.size(), out.data());
      return Status();
    };
  }

 private:
  std::vector<std::unique_ptr<gpu::Engine>> engines_;
};

std::unique_ptr<gpu::Engine> whole_engine(const JobSpec& spec, int versions) {
  auto engine = empty_engine(spec);
  REQUIRE(engine->init_replica().ok());
  REQUIRE(engine->buckets().size() > 3);
  for (int v = 0; v < versions; ++v) test::advance(*engine);
  return engine;
}

// Whether the engine has the version of one that holds all, as far as it holds it.
bool equals(const gpu::Engine& engine, const gpu::Engine& whole) {
  const gpu::Replica &a = engine.replica(), &b = whole.replica();
  const auto same = [](const float* x, const float* y, std::int64_t floats) {
    return std::memcmp(x, y, static_cast<std::size_t>(floats) * sizeof(float)) == 0;
  };
  bool equal = a.version == b.version && a.contexts == b.contexts &&
               same(a.params.data(), b.params.data(), a.params.floats());
  for (std::size_t m = 0; m < a.moments.size(); ++m)
    for (const gpu::FloatRange& range : a.moments[m].held())
      equal = equal && same(a.moments[m].data() + range.begin, b.moments[m].data() + range.begin,
                            range.floats());
  return equal;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// All but the time of writing, which is in the manifest.
void check_same_files(const fs::path& a, const fs::path& b) {
  CHECK(bytes_of(a / store::kDataFile) == bytes_of(b / store::kDataFile));
  CHECK(bytes_of(a / store::kJobTomlFile) == bytes_of(b / store::kJobTomlFile));
  const auto manifest_of = [](const fs::path& path) {
    store::CheckpointManifest manifest = store::CheckpointReader::open(path)->manifest();
    manifest.head.written_unix_ms = 0;
    return encode_manifest(manifest);
  };
  CHECK(manifest_of(a) == manifest_of(b));
}

Snapshot snapshot_of(const gpu::Engine& engine, const JobSpec& spec, OtherMoments other) {
  Snapshot snapshot = test::snapshot_of(engine, spec);
  snapshot.other = std::move(other);
  return snapshot;
}

// A piece with its bytes, to which described() refers.
struct Exported {
  Exported(const gpu::Engine& engine, VersionPart part)
      : bytes(part_bytes(engine, part)), piece{std::move(part), {}, {}} {
    piece.digest = export_part(engine, piece.part, bytes);
    piece.bytes = bytes;
  }
  std::vector<std::byte> bytes;
  VersionPiece piece;
};

std::vector<protocol::Bytes> contexts_of(const gpu::Engine& engine) {
  std::vector<protocol::Bytes> contexts;
  for (const gpu::EstContext& context : engine.contexts())
    contexts.push_back(std::make_shared<const std::vector<std::byte>>(gpu::encode(context)));
  return contexts;
}

VersionFrame frame_of(const gpu::Engine& engine) {
  return {engine.version(), contexts_of(engine)};
}

// Every worker sends some parameters, and the moments that it is the first to hold.
std::vector<Exported> pieces_for(Workers& workers, const gpu::Engine& joiner) {
  std::vector<Exported> pieces;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    VersionPart part{.frozen = i == 1};
    for (std::uint32_t b = 0; b < joiner.buckets().size(); ++b) {
      if (b % workers.size() == i) part.params.push_back(b);
      if (joiner.holds(b) && &workers.holder(b) == &workers[i]) part.moments.push_back(b);
    }
    pieces.emplace_back(workers[i], part);
  }
  return pieces;
}

std::vector<VersionPiece> described(const std::vector<Exported>& pieces) {
  std::vector<VersionPiece> result;
  for (const Exported& e : pieces) {
    result.push_back(e.piece);
    result.back().bytes = e.bytes;
  }
  return result;
}

}  // namespace

TEST_SUITE("actors/worker/state/divided_version") {
  TEST_CASE(
      "one worker writes the checkpoint of all, with the bytes of a job that divides nothing") {
    for (const JobSpec& spec : specs()) {
      const es::test::TempDirectory directory;
      const auto whole = whole_engine(spec, 2);
      REQUIRE(write_snapshot(test::snapshot_of(*whole, spec), directory / "whole").ok());
      Workers workers(spec, 3);
      workers.advance();
      workers.advance();
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK_FALSE(workers[i].holds_all());
        CHECK(equals(workers[i], *whole));
        const fs::path path = directory / std::to_string(i);
        const auto written = write_snapshot(snapshot_of(workers[i], spec, workers.other()), path);
        REQUIRE_MESSAGE(written.ok(), (written.ok() ? "" : written.error().message));
        CHECK(written->digests == digests_of(*whole));
        check_same_files(path, directory / "whole");
        CHECK(digests_of(snapshot_of(workers[i], spec, workers.other())).value() ==
              digests_of(*whole));
      }
    }
  }

  TEST_CASE("what a worker holds is copied when its version ends while others are asked") {
    const JobSpec spec = large_spec();
    const es::test::TempDirectory directory;
    const auto whole = whole_engine(spec, 2);
    REQUIRE(write_snapshot(test::snapshot_of(*whole, spec), directory / "whole").ok());
    Workers workers(spec, 3), next(spec, 3);
    workers.advance();
    workers.advance();
    Snapshot snapshot = snapshot_of(workers[0], spec, {});
    next.advance();
    next.advance();  // has the version that `workers` leave
    int asked = 0;
    snapshot.other = [&](std::size_t moment, std::uint32_t bucket, std::int64_t offset,
                         std::span<float> out) {
      if (++asked == 3) {
        snapshot.replica->thaw();
        workers.advance();
        REQUIRE(workers[0].hold(std::vector<std::uint32_t>{0}).ok());
      }
      return next.other()(moment, bucket, offset, out);
    };
    REQUIRE(write_snapshot(snapshot, directory / "c").ok());
    CHECK(asked > 3);
    check_same_files(directory / "c", directory / "whole");
  }

  TEST_CASE(
      "an error of another worker abandons the checkpoint, and other values have other digests") {
    const JobSpec spec = adapted_spec();
    const es::test::TempDirectory directory;
    Workers workers(spec, 3);
    workers.advance();
    const auto fails = [](std::size_t, std::uint32_t, std::int64_t, std::span<float>) {
      return Status(failure("the other worker is gone"));
    };
    const auto written = write_snapshot(snapshot_of(workers[0], spec, fails), directory / "c");
    REQUIRE_FALSE(written.ok());
    CHECK(written.error().message == "the other worker is gone");
    CHECK(fs::is_empty(directory.path()));

    bool flipped = false;
    const auto flips = [&](std::size_t moment, std::uint32_t bucket, std::int64_t offset,
                           std::span<float> out) -> Status {
      ES_RETURN_IF_ERROR(workers.other()(moment, bucket, offset, out));
      if (!std::exchange(flipped, true)) out.back() += 1.0F;
      return Status();
    };
    const auto right = digests_of(snapshot_of(workers[0], spec, workers.other()));
    const auto wrong = digests_of(snapshot_of(workers[0], spec, flips));
    CHECK(wrong->params == right->params);
    CHECK(wrong->state != right->state);
  }

  TEST_CASE("a worker loads of a checkpoint what it holds") {
    for (const JobSpec& spec : specs()) {
      const es::test::TempDirectory directory;
      const auto whole = whole_engine(spec, 2);
      Snapshot snapshot = test::snapshot_of(*whole, spec);
      REQUIRE(write_snapshot(snapshot, directory / "c").ok());
      Workers workers(spec, 3);
      for (std::size_t i = 0; i < 3; ++i) {
        const Status loaded = load_checkpoint(workers[i], spec, directory / "c");
        REQUIRE_MESSAGE(loaded.ok(), (loaded.ok() ? "" : loaded.error().message));
        CHECK(equals(workers[i], *whole));
        CHECK_FALSE(workers[i].holds_all());
      }
      // Also a digest of what is not held is compared.
      const auto reader = store::CheckpointReader::open(directory / "c");
      std::vector<std::vector<std::byte>> bytes;
      std::vector<store::Section> sections;
      for (const store::SectionInfo& section : reader->manifest().sections)
        bytes.push_back(reader->read(section.name).value());
      for (std::size_t s = 0; s < bytes.size(); ++s)
        sections.push_back(store::section_of(reader->manifest().sections[s].name, bytes[s]));
      store::CheckpointHead head = reader->head();
      head.state_digest.low ^= 1;
      REQUIRE(store::write_checkpoint(store::posix_file_system(), directory / "w",
                                      {head, reader->job_toml(), sections})
                  .ok());
      const Status refused = load_checkpoint(workers[0], spec, directory / "w");
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().message.find("optimizer state and contexts have digest") !=
            std::string::npos);
    }
  }

  TEST_CASE("a joining worker gets a version in pieces from several workers") {
    for (const JobSpec& spec : specs()) {
      const auto whole = whole_engine(spec, 2);
      Workers workers(spec, 3);
      workers.advance();
      workers.advance();
      auto joiner = empty_engine(spec);
      REQUIRE(joiner->hold(std::vector<std::uint32_t>{1, 2}).ok());
      const std::vector<Exported> exported = pieces_for(workers, *joiner);
      const std::vector<VersionPiece> pieces = described(exported);
      const Status loaded = import_version(*joiner, spec, frame_of(workers[0]), pieces);
      REQUIRE_MESSAGE(loaded.ok(), (loaded.ok() ? "" : loaded.error().message));
      CHECK(equals(*joiner, *whole));
      CHECK(joiner->memory_use().moments < whole->memory_use().moments);

      const auto error_of = [&](std::vector<VersionPiece> changed, const VersionFrame& frame) {
        const auto fresh = empty_engine(spec);
        REQUIRE(fresh->hold(std::vector<std::uint32_t>{1, 2}).ok());
        const Status refused = import_version(*fresh, spec, frame, changed);
        if (refused.ok()) return std::string();
        CHECK(fresh->version() == 0);
        return refused.error().message;
      };
      const VersionFrame frame = frame_of(workers[0]);
      CHECK(error_of(pieces, frame).empty());
      std::vector<std::byte> flipped = exported[2].bytes;
      flipped[flipped.size() / 2] ^= std::byte{1};
      std::vector<VersionPiece> changed = pieces;
      changed[2].bytes = flipped;
      CHECK(error_of(changed, frame)
                .starts_with("state from a peer: the bytes of a piece have digest "));
      changed = pieces;
      changed.pop_back();
      CHECK(error_of(changed, frame) ==
            "state from a peer: parameters of bucket 2 come 0 times, expected once");
      changed = pieces;
      changed.push_back(pieces[0]);
      CHECK(error_of(changed, frame) ==
            "state from a peer: parameters of bucket 0 come 2 times, expected once");
      changed = pieces;
      changed[0].part.params[0] = 9999;
      CHECK(error_of(changed, frame).starts_with("state from a peer: bucket 9999, expected an"));
      changed = pieces;
      changed[0].bytes = changed[0].bytes.subspan(4);
      CHECK(error_of(changed, frame).find(" bytes, expected ") != std::string::npos);
      VersionFrame fewer = frame;
      fewer.contexts.pop_back();
      CHECK(error_of(pieces, fewer).starts_with("1 EST contexts: allowed is max_p = 2"));
    }
  }

  TEST_CASE("holders change between versions, and a worker finishes a version from another one") {
    const JobSpec spec = large_spec();
    auto whole = whole_engine(spec, 1);
    Workers workers(spec, 3);
    workers.advance();
    // The holders move on by one worker. All get what is new before one lets something go.
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<std::uint32_t> both;
      VersionPart added;
      const std::vector<std::uint32_t> wanted = workers.held_by(i, 1);
      for (std::uint32_t b = 0; b < whole->buckets().size(); ++b) {
        const bool is_new = std::ranges::count(wanted, b) != 0 && !workers[i].holds(b);
        if (is_new) added.moments.push_back(b);
        if (is_new || workers[i].holds(b)) both.push_back(b);
      }
      REQUIRE_FALSE(added.moments.empty());
      std::vector<Exported> exported;
      for (const std::uint32_t b : added.moments)
        exported.emplace_back(workers.holder(b), VersionPart{.moments = {b}});
      std::vector<VersionPiece> pieces = described(exported);
      CHECK(import_pieces(workers[i], pieces).error().message ==
            "state from a peer: moments of bucket " + std::to_string(added.moments[0]) +
                ", which this worker does not hold");
      REQUIRE(workers[i].hold(both).ok());
      CHECK_FALSE(equals(workers[i], *whole));  // what is new is zero
      pieces[0].digest.high ^= 1;
      CHECK_FALSE(import_pieces(workers[i], pieces).ok());
      pieces[0].digest.high ^= 1;
      REQUIRE(import_pieces(workers[i], pieces).ok());
      CHECK(equals(workers[i], *whole));
    }
    for (std::size_t i = 0; i < 3; ++i) REQUIRE(workers[i].hold(workers.held_by(i, 1)).ok());
    workers.advance();
    test::advance(*whole);
    for (std::size_t i = 0; i < 3; ++i) CHECK(equals(workers[i], *whole));

    // A worker of the version before gets parameters and moments of the next one.
    Workers late(spec, 3);
    late.advance();
    const std::vector<std::uint32_t> held = late.held_by(0, 0);
    std::vector<Exported> exported;
    for (std::uint32_t b = 0; b < whole->buckets().size(); ++b)
      exported.emplace_back(
          workers.holder(b),
          VersionPart{.params = {b},
                      .moments = late[0].holds(b) ? std::vector<std::uint32_t>{b}
                                                  : std::vector<std::uint32_t>()});
    REQUIRE(import_pieces(late[0], described(exported)).ok());
    REQUIRE(late[0].commit_update(workers[0].contexts()).ok());
    CHECK(equals(late[0], *whole));
  }
}

}  // namespace es::actors::worker

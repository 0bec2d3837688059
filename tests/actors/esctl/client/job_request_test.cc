#include "actors/esctl/client/job_request.h"

#include <doctest/doctest.h>

#include "store/checkpoint/checkpoint.h"
#include "tests/actors/esctl/session.h"
#include "tests/store/temp_directory.h"

namespace es::actors::esctl {
namespace {

const StartPoint kFromSeed{.checkpoint = {}, .version = 0};

class JobFile {
 public:
  explicit JobFile(const std::string& text = test::job_toml()) {
    es::test::write_file(path(), text);
  }
  std::filesystem::path path() const { return directory_ / "job.toml"; }
  std::filesystem::path directory() const { return directory_.path(); }
  Result<JobSpec> spec(const SpecChanges& changes, const StartPoint& start = kFromSeed) const {
    return make_spec(path(), changes, start);
  }

 private:
  es::test::TempDirectory directory_;
};

// A checkpoint of step 20. `kernels` is its section of that name; an empty text means none.
std::filesystem::path write_checkpoint(const std::filesystem::path& parent,
                                       const std::string& kernels = "") {
  const std::vector<std::byte> bytes(1000);
  std::vector<store::Section> sections{store::section_of("params", bytes)};
  if (!kernels.empty())
    sections.push_back(store::section_of("kernels", std::as_bytes(std::span(kernels))));
  const std::string job_toml = test::job_toml();
  const Status written =
      store::write_checkpoint(store::posix_file_system(), parent / "step20",
                              {{.job_name = "cnn", .version = 20}, job_toml, sections});
  REQUIRE_MESSAGE(written.ok(), written.error().message);
  return parent / "step20";
}

std::string message(const Status& status) {
  return status ? "" : status.error().message;
}

}  // namespace

TEST_SUITE("actors/esctl/job_request") {
  TEST_CASE("options replace what the file says") {
    const auto spec = JobFile().spec({.steps = 7, .level = "D1"});
    REQUIRE(spec.ok());
    CHECK(spec->steps == 7);
    CHECK(spec->level == DeterminismLevel::kD1);
  }

  TEST_CASE("stages on the command line decide the number of steps") {
    const auto spec = JobFile().spec({.stages = "cpu-avx2:2@4,cpu-scalar:1@3"});
    REQUIRE(spec.ok());
    CHECK(spec->steps == 7);
    CHECK(spec->stages.size() == 2);
  }

  TEST_CASE("stages count from the checkpoint") {
    const auto spec =
        JobFile().spec({.stages = "cpu-avx2:2@4"}, {.checkpoint = "/c", .version = 20});
    REQUIRE(spec.ok());
    CHECK(spec->steps == 24);
  }

  TEST_CASE("steps that differ from the stages are a usage error") {
    const auto spec = JobFile().spec({.steps = 8, .stages = "cpu-avx2:2@4,cpu-scalar:1@3"});
    REQUIRE_FALSE(spec.ok());
    CHECK(spec.error().kind == ErrorKind::kUsage);
    CHECK(spec.error().message.find("--steps = 8") != std::string::npos);
    CHECK(spec.error().message.ends_with(" 7"));
    CHECK(JobFile().spec({.steps = 7, .stages = "cpu-avx2:2@4,cpu-scalar:1@3"}).ok());
  }

  TEST_CASE("a placement for all steps is one stage") {
    const auto spec = JobFile().spec({.devices = "cpu-avx2:3"});
    REQUIRE(spec.ok());
    CHECK(stages_text(spec->stages) == "cpu-avx2:3@60");
    const auto rest =
        JobFile().spec({.devices = "cpu-avx2:3"}, {.checkpoint = "/c", .version = 20});
    REQUIRE(rest.ok());
    CHECK(stages_text(rest->stages) == "cpu-avx2:3@40");
    CHECK(rest->steps == 60);
  }

  TEST_CASE("epochs become steps by the size of the dataset") {
    // 64 samples, 4 ESTs of 2 samples: 8 steps an epoch.
    const auto spec = JobFile(test::job_toml("epochs = 3\n")).spec({.devices = "cpu-avx2:3"});
    REQUIRE(spec.ok());
    CHECK(spec->steps == 24);
  }

  TEST_CASE("steps and stages of the command line replace the file's epochs") {
    const JobFile file(test::job_toml("epochs = 3\n"));
    CHECK(file.spec({})->epochs == 3);
    const auto steps = file.spec({.steps = 5});
    REQUIRE(steps.ok());
    CHECK(steps->steps == 5);
    CHECK(steps->epochs == 0);
    const auto stages = file.spec({.stages = "cpu-avx2:2@4"});
    REQUIRE(stages.ok());
    CHECK(stages->steps == 4);
    CHECK(stages->epochs == 0);
    // For a checkpoint that only the nodes can read, the head adds the steps.
    const auto far =
        file.spec({.stages = "cpu-avx2:2@4"}, {.checkpoint = "/c", .version = std::nullopt});
    REQUIRE(far.ok());
    CHECK(far->epochs == 0);
    const JobFile both(test::job_toml("steps = 5\nepochs = 3\n"));
    CHECK(both.spec({}).error().message.ends_with(
        "job.toml: epochs = 3: allowed is 0 beside steps = 5 (give steps or epochs)"));
  }

  TEST_CASE("a checkpoint at the end of the job leaves nothing to do") {
    const auto spec = JobFile().spec({}, {.checkpoint = "/c", .version = 60});
    REQUIRE_FALSE(spec.ok());
    CHECK(spec.error().kind == ErrorKind::kUsage);
  }

  TEST_CASE("the rules of a specification hold for the values that the options give it") {
    const auto spec = JobFile().spec({.level = "D1", .stages = "cpu-avx2:1+cpu-scalar:1@4"});
    REQUIRE_FALSE(spec.ok());
    CHECK(spec.error().message.find("needs level D2") != std::string::npos);
    CHECK_FALSE(JobFile().spec({.stages = "cpu-avx2:5@4"}).ok());
    CHECK_FALSE(JobFile().spec({.stages = "cpu-avx2@4"}).ok());
    CHECK_FALSE(JobFile().spec({.level = "D7"}).ok());
  }

  TEST_CASE("a relative data path begins in the directory of the job file") {
    const JobFile file("name = \"a\"\nsteps = 1\n[data]\nkind = \"idx\"\npath = \"../images\"\n");
    const auto spec = file.spec({});
    REQUIRE(spec.ok());
    CHECK(spec->data.path == (file.directory().parent_path() / "images").string());
  }

  TEST_CASE("a missing job file is the error not found") {
    const auto spec = make_spec("/nonexistent/job.toml", {}, kFromSeed);
    REQUIRE_FALSE(spec.ok());
    CHECK(spec.error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("a checkpoint tells at which step the job begins") {
    const es::test::TempDirectory directory;
    const auto start = open_start_point(write_checkpoint(directory.path()).string(), false);
    REQUIRE(start.ok());
    CHECK(start->version == 20);
    CHECK(start->checkpoint == (directory / "step20").string());
  }

  TEST_CASE("a checkpoint tells the level at which it was computed, if it was computed at one") {
    const es::test::TempDirectory directory, other, unreadable;
    const std::string kernels = "level D1\ndevice_type cpu-avx2\n";
    const auto with = open_start_point(write_checkpoint(directory.path(), kernels), false);
    REQUIRE(with.ok());
    CHECK(with->level == DeterminismLevel::kD1);
    const auto without = open_start_point(write_checkpoint(other.path()), false);
    REQUIRE(without.ok());
    CHECK_FALSE(without->level.has_value());
    const auto odd = open_start_point(write_checkpoint(unreadable.path(), "level D9\n"), false);
    REQUIRE_FALSE(odd.ok());
    CHECK(odd.error().kind == ErrorKind::kUsage);
  }

  TEST_CASE("a damaged checkpoint is refused before anything starts") {
    const es::test::TempDirectory directory;
    const auto checkpoint = write_checkpoint(directory.path());
    es::test::flip_bit(checkpoint / "data", 500, 3);
    for (const bool may_be_remote : {false, true}) {
      const auto start = open_start_point(checkpoint.string(), may_be_remote);
      REQUIRE_FALSE(start.ok());
      CHECK(start.error().kind == ErrorKind::kUsage);
    }
  }

  TEST_CASE("a checkpoint that is not on this machine may be on the nodes") {
    const auto here = open_start_point("/nonexistent/checkpoint", false);
    REQUIRE_FALSE(here.ok());
    CHECK(here.error().kind == ErrorKind::kNotFound);
    const auto remote = open_start_point("/nonexistent/checkpoint", true);
    REQUIRE(remote.ok());
    CHECK_FALSE(remote->version.has_value());
  }

  TEST_CASE("devices are checked against those that the cluster offers") {
    const DeviceSet offered = parse_device_set("cpu-scalar:2").value();
    JobSpec spec;
    spec.stages = parse_stages("cpu-scalar:2@1").value();
    CHECK(check_devices(spec, offered).ok());
    spec.stages = parse_stages("cpu-scalar:3@1").value();
    CHECK(check_devices(spec, offered).error().kind == ErrorKind::kRefused);
    CHECK(message(check_devices(spec, offered)).find("offers: cpu-scalar:2") != std::string::npos);
    spec.stages = parse_stages("cpu-avx2:1@1").value();
    CHECK(check_devices(spec, offered).error().kind == ErrorKind::kRefused);
    spec.stages = parse_stages("cpu-mmx:1@1").value();
    CHECK(check_devices(spec, offered).error().kind == ErrorKind::kUsage);
    spec.stages.clear();
    spec.resources.device_types = {{"cpu-avx2"}};
    CHECK(check_devices(spec, offered).error().kind == ErrorKind::kRefused);
  }
}

}  // namespace es::actors::esctl

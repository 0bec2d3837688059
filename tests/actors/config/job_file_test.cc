#include "actors/config/job_file.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tests/support/seed.h"

using namespace es;
using namespace es::actors;

TEST_SUITE("actors/config/job_file") {
  TEST_CASE("a job file is read into its fields") {
    const auto spec = parse_job(R"(
name = "fashion"
max_p = 4
batch_size = 64
epochs = 3
level = "D2"
stages = "cpu-avx2:2@20,cpu-scalar:1@5"
[model]
name = "resnet18"
width = 16
[data]
kind = "idx"
path = "/data/fashion"
crop_padding = 2
flip = true
[optimizer]
learning_rate = 0.05
weight_decay = 5e-4
[schedule]
kind = "cosine"
warmup_steps = 10
[resources]
max_devices = 3
device_types = ["cpu-avx2"]
)",
                                "fashion.toml");
    REQUIRE_MESSAGE(spec.ok(), (spec.ok() ? "" : spec.error().message));
    CHECK(spec->name == "fashion");
    CHECK(spec->level == DeterminismLevel::kD2);
    CHECK(spec->stages.size() == 2);
    CHECK(spec->model.width == 16);
    CHECK(spec->data.flip);
    CHECK(spec->optimizer.weight_decay == 5e-4);
    CHECK(spec->schedule.warmup_steps == 10);
    CHECK(spec->resources.device_types.size() == 1);
  }

  TEST_CASE("what a file says wrongly is named with file, key, value and what is allowed") {
    struct Case {
      const char* text;
      const char* expected;
    };
    const Case cases[] = {
        {"steps = 1\nmax_p = \"four\"", "job.toml: max_p = 'four': allowed is a whole number"},
        {"steps = 1\nmax_p = -1", "job.toml: max_p = -1: allowed is a whole number from 0"},
        {"steps = 1\nmax_p = 99999999999", "allowed is a whole number from 0 to 4294967295"},
        {"steps = 1\nmaxp = 4", "job.toml: unknown key maxp (line 2); allowed here: batch_size"},
        {"steps = 1\n[model]\nwidht = 3", "unknown key model.widht (line 3)"},
        {"steps = 1\nlevel = \"D3\"", "level = \"D3\": allowed is D1, D2"},
        {"steps = 1\nstages = \"cpu:0@1\"", "job.toml: placement \"cpu:0\""},
        {"steps = 1\nmodel = 3", "job.toml: model = 3: allowed is a table [model]"},
        {"steps = 1\n[data]\nflip = 1", "data.flip = 1: allowed is true or false"},
        {"steps = = 1", "job.toml: line 1, column"},
        {"max_p = 2", "job.toml: steps = 0: allowed is at least 1"},
    };
    for (const Case& c : cases) {
      CAPTURE(c.text);
      const auto spec = parse_job(c.text, "job.toml");
      REQUIRE(!spec.ok());
      CHECK(spec.error().kind == ErrorKind::kUsage);
      CHECK_MESSAGE(spec.error().message.find(c.expected) != std::string::npos,
                    spec.error().message);
    }
  }

  TEST_CASE("a file that does not exist is not found") {
    const auto spec = read_job_file("does/not/exist.toml");
    REQUIRE(!spec.ok());
    CHECK(spec.error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("the canonical text of a spec reads back as the same spec") {
    std::mt19937_64 random(es::test::seed("job_file"));
    for (int i = 0; i < 200; ++i) {
      JobSpec spec;
      spec.name = "j" + std::to_string(random() % 1000);
      spec.max_p = 1 + random() % 64;
      spec.steps = 1 + random() % 1000;
      spec.seed = random() >> 1;
      spec.level = DeterminismLevel::kD2;
      spec.data.path = "a \\ \"b\"";
      spec.optimizer.learning_rate = std::ldexp(static_cast<double>(random() % (1 << 20)), -20);
      spec.optimizer.weight_decay = static_cast<double>(random()) * 1e-22;
      spec.schedule.gamma = 1.0;
      spec.resources.device_types = {{"cpu-avx2"}, {"cpu-scalar"}};
      spec.stages = *parse_stages("cpu-avx2:1@" + std::to_string(1 + random() % 9));
      const auto again = parse_job(to_toml(spec), "canonical");
      REQUIRE_MESSAGE(again.ok(), (again.ok() ? "" : again.error().message));
      CHECK(*again == spec);
      CHECK(to_toml(*again) == to_toml(spec));
    }
  }

  TEST_CASE("mutated job files never crash the reader") {
    const std::string good = to_toml(JobSpec{.steps = 3});
    std::mt19937_64 random(es::test::seed("job_file_mutations"));
    for (int i = 0; i < 5000; ++i) {
      std::string text = good;
      for (int k = 0; k < 3; ++k) text[random() % text.size()] = static_cast<char>(random());
      const auto spec = parse_job(text, "mutated");
      if (spec.ok()) CHECK(validate(*spec, "mutated").ok());
    }
  }
}

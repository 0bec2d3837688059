#include "proto/base/job_spec.h"

#include <doctest/doctest.h>

#include <functional>

using namespace es;

namespace {

JobSpec good() {
  JobSpec spec;
  spec.steps = 10;
  return spec;
}

}  // namespace

TEST_SUITE("proto/base/job_spec") {
  TEST_CASE("the defaults with a number of steps are a valid job") {
    CHECK(validate(good(), "job.toml").ok());
  }

  TEST_CASE("each rule names the file, the field, the value and what is allowed") {
    struct Case {
      const char* field;
      std::function<void(JobSpec&)> spoil;
    };
    const Case cases[] = {
        {"name", [](JobSpec& s) { s.name = "../x"; }},
        {"max_p", [](JobSpec& s) { s.max_p = 0; }},
        {"batch_size", [](JobSpec& s) { s.batch_size = 0; }},
        {"steps", [](JobSpec& s) { s.steps = 0; }},
        {"model.name", [](JobSpec& s) { s.model.name = "resnet19"; }},
        {"model.classes", [](JobSpec& s) { s.model.classes = 1; }},
        {"data.kind", [](JobSpec& s) { s.data.kind = "csv"; }},
        {"data.path", [](JobSpec& s) { s.data.kind = "idx"; }},
        {"data.samples", [](JobSpec& s) { s.data.samples = 0; }},
        {"optimizer.learning_rate", [](JobSpec& s) { s.optimizer.learning_rate = -1; }},
        {"optimizer.momentum", [](JobSpec& s) { s.optimizer.momentum = 0.0 / 0.0; }},
        {"schedule.kind", [](JobSpec& s) { s.schedule.kind = "linear"; }},
        {"schedule.step_size", [](JobSpec& s) { s.schedule.kind = "step"; }},
        {"resources.min_devices", [](JobSpec& s) { s.resources.min_devices = 5; }},
        {"stages", [](JobSpec& s) { s.stages = *parse_stages("cpu-avx2:5@1"); }},
        {"stages", [](JobSpec& s) { s.stages = *parse_stages("cpu-avx2:1+cpu-scalar:1@1"); }},
    };
    for (const Case& c : cases) {
      CAPTURE(c.field);
      JobSpec spec = good();
      c.spoil(spec);
      const Status status = validate(spec, "job.toml");
      REQUIRE(!status.ok());
      CHECK(status.error().kind == ErrorKind::kUsage);
      CHECK(status.error().message.rfind("job.toml: " + std::string(c.field) + " = ", 0) == 0);
      CHECK(status.error().message.find("allowed is") != std::string::npos);
    }
  }

  TEST_CASE("a mix of device types needs level D2") {
    JobSpec spec = good();
    spec.stages = *parse_stages("cpu-avx2:1+cpu-scalar:1@1");
    spec.level = DeterminismLevel::kD2;
    CHECK(validate(spec, "job.toml").ok());
  }
}

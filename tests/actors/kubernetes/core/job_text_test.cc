#include "actors/kubernetes/core/job_text.h"

#include <doctest/doctest.h>

#include "actors/base/job_file/job_file.h"

using namespace es;
using namespace es::actors;
using kubernetes::Json;

TEST_SUITE("actors/kubernetes/core/job_text") {
  TEST_CASE("keys of job files are spelt as Kubernetes spells keys") {
    CHECK(kubernetes::camel_case("max_p") == "maxP");
    CHECK(kubernetes::camel_case("random_resized_crop") == "randomResizedCrop");
    CHECK(kubernetes::camel_case("tf32") == "tf32");
  }

  TEST_CASE("an object means what the same job file means") {
    const Json job = Json::parse(R"({"metadata": {"name": "bert"}, "spec": {
        "devices": 3, "suspend": false, "cluster": "easyscale", "maxP": 8, "steps": 20,
        "level": "D1", "tf32": true,
        "model": {"name": "resnet18", "width": 16, "dropout": -1},
        "optimizer": {"kind": "adamw", "learningRate": 1, "weightDecay": 1e-4,
                      "groups": [{"parameters": ["*.bias", "a\"b"], "weightDecay": 0}],
                      "clipGroups": [{"parameters": ["fc.*"], "clipNorm": 2}]},
        "resources": {"deviceTypes": ["cpu-avx2", "cpu-scalar"], "minDevices": 2}}})");
    const auto expected = parse_job(R"(
        name = "bert"
        max_p = 8
        steps = 20
        level = "D1"
        tf32 = true
        [model]
        name = "resnet18"
        width = 16
        dropout = -1.0
        [optimizer]
        kind = "adamw"
        learning_rate = 1.0
        weight_decay = 1e-4
        [[optimizer.groups]]
        parameters = ["*.bias", 'a"b']
        weight_decay = 0.0
        [[optimizer.clip_groups]]
        parameters = ["fc.*"]
        clip_norm = 2.0
        [resources]
        device_types = ["cpu-avx2", "cpu-scalar"]
        min_devices = 2
    )",
                                    "job.toml");
    REQUIRE_MESSAGE(expected.ok(), expected.error().message);
    const auto spec = kubernetes::job_spec_of(job);
    REQUIRE_MESSAGE(spec.ok(), spec.error().message);
    CHECK(to_toml(*spec) == to_toml(*expected));
  }

  TEST_CASE("an error names the object and the key") {
    const auto spec = kubernetes::job_spec_of(
        Json::parse(R"({"metadata": {"name": "x"}, "spec": {"steps": 5, "batchSize": 0}})"));
    REQUIRE(!spec.ok());
    CHECK(spec.error().kind == ErrorKind::kUsage);
    CHECK(spec.error().message.find("ElasticTrainingJob x") != std::string::npos);
    CHECK(spec.error().message.find("batch_size") != std::string::npos);
  }

  TEST_CASE("minDevices beside devices is that of the resources") {
    const auto read = [](const char* spec) {
      return kubernetes::job_spec_of(
          Json{{"metadata", {{"name", "x"}}}, {"spec", Json::parse(spec)}});
    };
    const auto spec = read(R"({"steps": 5, "minDevices": 3})");
    REQUIRE_MESSAGE(spec.ok(), spec.error().message);
    CHECK(spec->resources.min_devices == 3);
    CHECK(read(R"({"steps": 5, "minDevices": 3, "resources": {"minDevices": 3}})").ok());
    const auto both = read(R"({"steps": 5, "minDevices": 3, "resources": {"minDevices": 2}})");
    REQUIRE(!both.ok());
    CHECK(both.error().kind == ErrorKind::kUsage);
    CHECK(both.error().message ==
          "spec.minDevices = 3 and spec.resources.minDevices = 2: allowed is one of them, or the "
          "same number");
  }
}

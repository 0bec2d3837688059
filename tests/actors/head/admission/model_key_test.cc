#include "actors/head/admission/model_key.h"

#include <doctest/doctest.h>

namespace es::actors {
namespace {

SampleLayout layout(std::uint32_t height) {
  SampleLayout layout;
  layout.fields.push_back({.name = "image", .height = height, .width = 28, .channels = 1});
  return layout;
}

TEST_SUITE("actors/model_key") {
  TEST_CASE("what makes a local step longer or shorter gives another key") {
    JobSpec spec;
    const std::string key = model_key(spec, layout(28));
    CHECK(model_key(spec, layout(56)) != key);
    const auto changed = [&](auto change) {
      JobSpec other = spec;
      change(other);
      return model_key(other, layout(28)) != key;
    };
    CHECK(changed([](JobSpec& s) { s.model.name = "resnet18"; }));
    CHECK(changed([](JobSpec& s) { s.model.size = "tiny"; }));
    CHECK(changed([](JobSpec& s) { s.model.width = 32; }));
    CHECK(changed([](JobSpec& s) { s.model.classes = 1000; }));
    CHECK(changed([](JobSpec& s) { s.model.dropout = 0.5; }));
    CHECK(changed([](JobSpec& s) { s.lora = {.rank = 2, .targets = {"*"}}; }));
    CHECK(changed([](JobSpec& s) { s.resources.threads = 2; }));
    CHECK(changed([](JobSpec& s) { s.model.file = "net"; }));
    CHECK(changed([](JobSpec& s) { s.level = DeterminismLevel::kD2; }));
  }

  TEST_CASE("the key of a model file has the digest of the model and not the place of the file") {
    JobSpec spec;
    spec.model = {.file = "net", .file_digest = std::string(32, 'a')};
    const std::string key = model_key(spec, layout(28));
    spec.model.file = "elsewhere";
    CHECK(model_key(spec, layout(28)) == key);
    spec.model.file_digest.back() = 'b';
    CHECK(model_key(spec, layout(28)) != key);
  }

  TEST_CASE("what does not change a local step does not change the key") {
    JobSpec spec;
    const std::string key = model_key(spec, layout(28));
    spec.name = "another";
    spec.seed = 99;
    spec.max_p = 64;
    spec.steps = 7;
    spec.optimizer.kind = "adam";
    spec.resources.max_devices = 3;
    CHECK(model_key(spec, layout(28)) == key);
  }
}

}  // namespace
}  // namespace es::actors

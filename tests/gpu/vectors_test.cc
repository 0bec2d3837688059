// Losses and gradients against PyTorch: the reference vectors, where they are present.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

#include "gpu/engine.h"
#include "gpu/params/pytorch_layout.h"
#include "tests/support/reference_data.h"

TEST_SUITE("gpu/vectors") {
  using namespace es;
  using namespace es::gpu;

  // One NAME.json with its NAME.bin.
  class Vectors {
   public:
    Vectors(const std::filesystem::path& directory, const std::string& name) {
      std::ifstream(directory / (name + ".json")) >> json_;
      std::ifstream bin(directory / (name + ".bin"), std::ios::binary);
      bytes_.assign(std::istreambuf_iterator<char>(bin), {});
    }

    std::vector<double> losses() const { return json_["loss_f64"]; }

    NamedTensor tensor(const std::string& name) const {
      const auto& info = entry(name);
      NamedTensor t{name, info["shape"], {}};
      t.values.resize(info["nbytes"].get<std::size_t>() / sizeof(float));
      std::memcpy(t.values.data(), bytes_.data() + info["offset"].get<std::size_t>(),
                  info["nbytes"].get<std::size_t>());
      return t;
    }

    std::vector<std::int32_t> labels(const std::string& name) const {
      const auto& info = entry(name);
      std::vector<std::int64_t> wide(info["nbytes"].get<std::size_t>() / sizeof(std::int64_t));
      std::memcpy(wide.data(), bytes_.data() + info["offset"].get<std::size_t>(),
                  info["nbytes"].get<std::size_t>());
      return {wide.begin(), wide.end()};
    }

    // Initial parameters and buffers under the names that `rename` gives them.
    template <class Rename>
    std::vector<NamedTensor> initial_state(const Rename& rename) const {
      std::vector<NamedTensor> tensors;
      for (const auto& t : json_["tensors"]) {
        if ((t["kind"] != "param" && t["kind"] != "buffer") || t["dtype"] != "f32") continue;
        tensors.push_back(tensor(t["name"]));
        tensors.back().name = rename(tensors.back().name);
      }
      return tensors;
    }

    std::vector<std::string> parameters() const { return json_["param_order"]; }

   private:
    const nlohmann::json& entry(const std::string& name) const {
      for (const auto& t : json_["tensors"])
        if (t["name"] == name) return t;
      throw std::runtime_error("vectors have no tensor " + name);
    }
    nlohmann::json json_;
    std::vector<char> bytes_;
  };

  // layers.5.conv1 -> layer3.1.conv1, down -> downsample: torchvision's names.
  std::string torchvision_name(const std::string& name) {
    std::smatch m;
    if (!std::regex_match(name, m, std::regex("layers\\.(\\d)\\.(.*)"))) return name;
    const int block = std::stoi(m[1]);
    const std::string rest = std::regex_replace(m[2].str(), std::regex("^down\\."), "downsample.");
    return "layer" + std::to_string(block / 2 + 1) + "." + std::to_string(block % 2) + "." + rest;
  }

  std::vector<float> nhwc(const NamedTensor& images, DataShape d) {
    std::vector<float> out(images.values.size());
    const std::size_t pixels = std::size_t{d.height} * d.width;
    for (std::size_t n = 0; n < out.size() / (pixels * d.channels); ++n)
      for (std::size_t c = 0; c < d.channels; ++c)
        for (std::size_t p = 0; p < pixels; ++p)
          out[(n * pixels + p) * d.channels + c] = images.values[(n * d.channels + c) * pixels + p];
    return out;
  }

  // max |a - b| / max |b|
  double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
    REQUIRE(a.size() == b.size());
    double worst = 0.0, scale = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      worst = std::max(worst, std::abs(double(a[i]) - double(b[i])));
      scale = std::max(scale, std::abs(double(b[i])));
    }
    return worst / scale;
  }

  struct Tolerance {
    double loss;
    double gradient;
  };

  void compare(const std::string& name, const ModelSpec& model, DataShape data,
               std::uint32_t batch_size, CpuClass cpu_class, Tolerance tolerance) {
    const std::filesystem::path directory = test::reference_data("vectors");
    if (directory.empty()) return;
    const Vectors vectors(directory, name);
    const auto rename = [&](const std::string& n) {
      return model.name == "resnet18" ? torchvision_name(n) : n;
    };
    JobSpec spec;
    spec.max_p = 1;
    spec.batch_size = batch_size;
    spec.model = model;
    spec.optimizer = {.learning_rate = 0.01, .momentum = 0.9, .weight_decay = 0.0};
    auto engine = *Engine::create(spec, data, {.cpu_class = cpu_class});
    engine->init_replica();
    Replica replica = engine->replica();
    const Status imported = import_state(engine->table(), vectors.initial_state(rename),
                                         replica.params.data(), replica.contexts[0].stats.data());
    REQUIRE_MESSAGE(imported.ok(), imported.error().message);
    REQUIRE(engine->install(std::move(replica)).ok());

    AlignedBuffer grad(engine->table().total_floats());
    for (std::size_t step = 0; step < 5; ++step) {
      const std::string prefix = "step" + std::to_string(step);
      const std::vector<float> images = nhwc(vectors.tensor(prefix + ".x"), data);
      const std::vector<std::int32_t> labels = vectors.labels(prefix + ".y");
      std::vector<EstContext> next(1);
      const auto loss = engine->local_step(0, {images.data(), labels.data()}, {}, grad.data(),
                                           next[0], [](std::uint32_t) {});
      REQUIRE(loss.ok());
      const double expected = vectors.losses()[step];
      CHECK(std::abs(*loss - expected) / expected < tolerance.loss);
      if (step == 0) {
        const auto ours = export_state(engine->table(), grad.data(), next[0].stats.data());
        for (const std::string& p : vectors.parameters()) {
          const auto found = std::find_if(
              ours.begin(), ours.end(), [&](const NamedTensor& t) { return t.name == rename(p); });
          REQUIRE(found != ours.end());
          INFO(p);
          CHECK(relative_error(found->values, vectors.tensor("step0.grad." + p).values) <
                tolerance.gradient);
        }
      }
      std::vector<const float*> reduced;
      for (const Bucket& b : engine->buckets()) reduced.push_back(grad.data() + b.begin);
      REQUIRE(engine->apply_update(reduced, std::move(next)).ok());
    }
    const auto ours = export_state(engine->table(), engine->replica().params.data(),
                                   engine->replica().contexts[0].stats.data());
    for (const NamedTensor& t : vectors.initial_state([](const std::string& n) { return n; })) {
      const auto found = std::find_if(
          ours.begin(), ours.end(), [&](const NamedTensor& o) { return o.name == rename(t.name); });
      REQUIRE(found != ours.end());
      INFO(t.name);
      CHECK(relative_error(found->values, vectors.tensor("final." + t.name).values) <
            tolerance.gradient);
    }
  }

  // Tolerances: five times the distance of PyTorch's fp32 from fp64 (README of the vectors).
  TEST_CASE("the MLP's losses and gradients agree with PyTorch") {
    for (const CpuClass c : supported_cpu_classes())
      compare("mlp", {.name = "mlp", .width = 32, .classes = 10}, {8, 8, 1}, 16, c,
              {.loss = 15e-7, .gradient = 5e-7});
  }

  TEST_CASE("ResNet18's losses, gradients and statistics agree with PyTorch") {
    for (const CpuClass c : supported_cpu_classes())
      compare("resnet18_w16_cifar", {.name = "resnet18", .width = 16, .classes = 10}, {32, 32, 3},
              8, c, {.loss = 1e-6, .gradient = 1e-5});
  }
}

// Losses, gradients and five steps of training compared with the reference vectors of PyTorch, if
// these are present.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

#include "gpu/engine/engine.h"
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
      return {name, entry(name)["shape"], values<float>(name)};
    }

    std::vector<std::int32_t> integers(const std::string& name) const {
      const std::vector<std::int64_t> wide = values<std::int64_t>(name);
      return {wide.begin(), wide.end()};
    }

    // Initial parameters and buffers.
    std::vector<NamedTensor> initial_state() const {
      std::vector<NamedTensor> tensors;
      for (const auto& t : json_["tensors"])
        if ((t["kind"] == "param" || t["kind"] == "buffer") && t["dtype"] == "f32")
          tensors.push_back(tensor(t["name"]));
      return tensors;
    }

    std::vector<NamedTensor> beginning_with(const std::string& prefix) const {
      std::vector<NamedTensor> tensors;
      for (const auto& t : json_["tensors"])
        if (t["dtype"] == "f32" && t["name"].get<std::string>().starts_with(prefix))
          tensors.push_back(tensor(t["name"]));
      return tensors;
    }

   private:
    template <class T>
    std::vector<T> values(const std::string& name) const {
      const auto& info = entry(name);
      std::vector<T> out(info["nbytes"].get<std::size_t>() / sizeof(T));
      std::memcpy(out.data(), bytes_.data() + info["offset"].get<std::size_t>(),
                  info["nbytes"].get<std::size_t>());
      return out;
    }
    const nlohmann::json& entry(const std::string& name) const {
      for (const auto& t : json_["tensors"])
        if (t["name"] == name) return t;
      throw std::runtime_error("vectors have no tensor " + name);
    }
    nlohmann::json json_;
    std::vector<char> bytes_;
  };

  // Fields one after the other, as a Batch holds them.
  class Words {
   public:
    void add(const std::vector<float>& values) {
      words_.insert(words_.end(), values.begin(), values.end());
    }
    void add(const std::vector<std::int32_t>& values) {
      for (const std::int32_t v : values) words_.push_back(std::bit_cast<float>(v));
    }
    const std::vector<float>& get() const { return words_; }

   private:
    std::vector<float> words_;
  };

  // One network of the vectors.
  struct Subject {
    std::string vectors;
    ModelSpec model;
    std::uint32_t batch_size;
    SampleLayout layout;
    // Names in the vectors -> our names.
    std::string (*rename)(const std::string&);
    // Adds the fields of the mini-batch whose tensors begin with the prefix ("step0.").
    void (*add_batch)(const Vectors&, const std::string& prefix, Words&);
    // Five times the distance of PyTorch's fp32 from fp64 (README of the vectors).
    double loss_tolerance, gradient_tolerance, weight_tolerance;
  };

  std::string same_name(const std::string& name) {
    return name;
  }

  // layers.5.conv1 -> layer3.1.conv1, down -> downsample: torchvision's names.
  std::string torchvision_name(const std::string& name) {
    std::smatch m;
    if (!std::regex_match(name, m, std::regex("layers\\.(\\d)\\.(.*)"))) return name;
    const int block = std::stoi(m[1]);
    const std::string rest = std::regex_replace(m[2].str(), std::regex("^down\\."), "downsample.");
    return "layer" + std::to_string(block / 2 + 1) + "." + std::to_string(block % 2) + "." + rest;
  }

  // blocks.1.f1.bias -> bert.encoder.layer.1.intermediate.dense.bias: transformers' names.
  std::string transformers_name(const std::string& name) {
    static const std::pair<const char*, const char*> kPaths[] = {
        {"^tok\\.", "bert.embeddings.word_embeddings."},
        {"^pos\\.", "bert.embeddings.position_embeddings."},
        {"^typ\\.", "bert.embeddings.token_type_embeddings."},
        {"^ln\\.", "bert.embeddings.LayerNorm."},
        {"^qa\\.", "qa_outputs."},
        {"^blocks\\.", "bert.encoder.layer."},
        {"\\.q\\.", ".attention.self.query."},
        {"\\.k\\.", ".attention.self.key."},
        {"\\.v\\.", ".attention.self.value."},
        {"\\.o\\.", ".attention.output.dense."},
        {"\\.ln1\\.", ".attention.output.LayerNorm."},
        {"\\.f1\\.", ".intermediate.dense."},
        {"\\.f2\\.", ".output.dense."},
        {"\\.ln2\\.", ".output.LayerNorm."}};
    std::string out = name;
    for (const auto& [pattern, path] : kPaths)
      out = std::regex_replace(out, std::regex(pattern), path);
    return out;
  }

  // NCHW -> NHWC; a matrix stays as it is.
  std::vector<float> nhwc(const NamedTensor& images) {
    if (images.shape.size() != 4) return images.values;
    const auto channels = static_cast<std::size_t>(images.shape[1]);
    const auto pixels = static_cast<std::size_t>(images.shape[2] * images.shape[3]);
    std::vector<float> out(images.values.size());
    for (std::size_t n = 0; n < out.size() / (pixels * channels); ++n)
      for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t p = 0; p < pixels; ++p)
          out[(n * pixels + p) * channels + c] = images.values[(n * channels + c) * pixels + p];
    return out;
  }

  void add_images(const Vectors& v, const std::string& prefix, Words& words) {
    words.add(nhwc(v.tensor(prefix + "x")));
    words.add(v.integers(prefix + "y"));
  }

  void add_ratings(const Vectors& v, const std::string& prefix, Words& words) {
    words.add(v.integers(prefix + "user"));
    words.add(v.integers(prefix + "item"));
    words.add(v.tensor(prefix + "label").values);
  }

  constexpr std::int32_t kTokens = 32;

  void add_questions(const Vectors& v, const std::string& prefix, Words& words) {
    const std::vector<std::int32_t> start = v.integers(prefix + "start");
    const std::vector<std::int32_t> end = v.integers(prefix + "end");
    std::vector<std::int32_t> span;
    for (std::size_t i = 0; i < start.size(); ++i) {
      span.push_back(start[i]);
      span.push_back(end[i]);
    }
    words.add(v.integers(prefix + "ids"));
    words.add(v.integers(prefix + "tt"));
    words.add(std::vector<std::int32_t>(start.size(), kTokens));  // There is no padding.
    words.add(span);
  }

  double largest(const std::vector<float>& values) {
    double most = 0.0;
    for (const float v : values) most = std::max(most, std::abs(double(v)));
    return most;
  }

  double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    REQUIRE(a.size() == b.size());
    double worst = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i)
      worst = std::max(worst, std::abs(double(a[i]) - double(b[i])));
    return worst;
  }

  const NamedTensor& find(const std::vector<NamedTensor>& tensors, const std::string& name) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const NamedTensor& t) { return t.name == name; });
    REQUIRE_MESSAGE(found != tensors.end(), name);
    return *found;
  }

  // Compares every tensor of the vectors whose name begins with the prefix with ours. The
  // difference is relative to the largest number of the tensor, or to 5 % of the largest number of
  // the network, because some gradients are 0 except for rounding (the key bias of an attention),
  // and the documented distances are those of whole networks.
  void compare_tensors(const Subject& s, const Vectors& vectors, const std::string& prefix,
                       const std::vector<NamedTensor>& ours, double tolerance) {
    const std::vector<NamedTensor> expected = vectors.beginning_with(prefix);
    REQUIRE_FALSE(expected.empty());
    double floor = 0.0;
    for (const NamedTensor& t : expected) floor = std::max(floor, 0.05 * largest(t.values));
    for (const NamedTensor& t : expected) {
      CAPTURE(t.name);
      const std::string name = s.rename(t.name.substr(prefix.size()));
      const NamedTensor& mine = find(ours, name);
      const double scale = std::max(floor, largest(t.values));
      CHECK(largest_difference(mine.values, t.values) / scale < tolerance);
    }
  }

  std::unique_ptr<Engine> engine_with_initial_state(const Subject& s, const Vectors& vectors,
                                                    CpuClass cpu_class) {
    JobSpec spec;
    spec.max_p = 1;
    spec.batch_size = s.batch_size;
    spec.model = s.model;
    spec.optimizer = {.learning_rate = 0.01, .momentum = 0.9, .weight_decay = 0.0};
    auto created = Engine::create(spec, s.layout, {.cpu_class = cpu_class});
    REQUIRE_MESSAGE(created.ok(), created.error().message);
    std::unique_ptr<Engine> engine = std::move(*created);
    REQUIRE(engine->init_replica().ok());
    Replica replica = engine->replica();
    std::vector<NamedTensor> state = vectors.initial_state();
    for (NamedTensor& t : state) t.name = s.rename(t.name);
    const Status imported = import_state(engine->table(), state, replica.params.data(),
                                         replica.contexts[0].stats.data());
    REQUIRE_MESSAGE(imported.ok(), imported.error().message);
    REQUIRE(engine->install(std::move(replica)).ok());
    return engine;
  }

  void train_five_steps(const Subject& s, const Vectors& vectors, Engine& engine) {
    AlignedBuffer grad(engine.table().total_floats());
    for (std::size_t step = 0; step < 5; ++step) {
      Words words;
      s.add_batch(vectors, "step" + std::to_string(step) + ".", words);
      std::vector<EstContext> next(1);
      const auto loss = engine.local_step(0, {words.get().data()}, {}, grad.data(), next[0],
                                          [](std::uint32_t) {});
      REQUIRE_MESSAGE(loss.ok(), loss.error().message);
      const double expected = vectors.losses()[step];
      CHECK(std::abs(*loss - expected) / expected < s.loss_tolerance);
      if (step == 0)
        compare_tensors(s, vectors, "step0.grad.",
                        export_state(engine.table(), grad.data(), next[0].stats.data()),
                        s.gradient_tolerance);
      std::vector<const float*> reduced;
      for (const Bucket& b : engine.buckets()) reduced.push_back(grad.data() + b.begin);
      REQUIRE(engine.apply_update(reduced, std::move(next)).ok());
    }
  }

  void compare(const Subject& s) {
    const std::filesystem::path directory = test::reference_data("vectors");
    if (directory.empty()) return;
    const Vectors vectors(directory, s.vectors);
    for (const CpuClass c : supported_cpu_classes()) {
      CAPTURE(device_type(c).name);
      const auto engine = engine_with_initial_state(s, vectors, c);
      train_five_steps(s, vectors, *engine);
      const Replica& replica = engine->replica();
      compare_tensors(
          s, vectors, "final.",
          export_state(engine->table(), replica.params.data(), replica.contexts[0].stats.data()),
          s.weight_tolerance);
    }
  }

  SampleField integers(const char* name, std::int64_t height, std::int64_t channels,
                       std::int32_t low, std::int32_t high) {
    return {name, FieldType::kI32, height, 1, channels, low, high};
  }

  TEST_CASE("the MLP agrees with PyTorch") {
    compare({.vectors = "mlp",
             .model = {.name = "mlp", .width = 32},
             .batch_size = 16,
             .layout = {{{"image", FieldType::kF32, 8, 8, 1}, integers("label", 1, 1, 0, 9)}},
             .rename = same_name,
             .add_batch = add_images,
             .loss_tolerance = 15e-7,
             .gradient_tolerance = 5e-7,
             .weight_tolerance = 15e-8});
  }

  TEST_CASE("ResNet18 agrees with PyTorch, its statistics too") {
    compare({.vectors = "resnet18_w16_cifar",
             .model = {.name = "resnet18", .width = 16},
             .batch_size = 8,
             .layout = {{{"image", FieldType::kF32, 32, 32, 3}, integers("label", 1, 1, 0, 9)}},
             .rename = torchvision_name,
             .add_batch = add_images,
             .loss_tolerance = 1e-6,
             .gradient_tolerance = 1e-5,
             .weight_tolerance = 1e-6});
  }

  TEST_CASE("NeuMF agrees with PyTorch, with ids that occur several times") {
    compare({.vectors = "neumf",
             .model = {.name = "neumf"},
             .batch_size = 256,
             .layout = {{integers("user", 1, 1, 0, 942),
                         integers("item", 1, 1, 0, 1681),
                         {"label", FieldType::kF32}}},
             .rename = same_name,
             .add_batch = add_ratings,
             .loss_tolerance = 2e-7,
             .gradient_tolerance = 2e-7,
             .weight_tolerance = 1e-7});
  }

  TEST_CASE("a BERT of two layers agrees with PyTorch") {
    compare(
        {.vectors = "tinybert_l2_d128",
         .model = {.name = "bert", .size = "tiny", .dropout = 0.0},
         .batch_size = 4,
         .layout = {{integers("ids", kTokens, 1, 0, 999), integers("types", kTokens, 1, 0, 1),
                     integers("length", 1, 1, 1, kTokens), integers("span", 1, 2, 0, kTokens - 1)}},
         .rename = transformers_name,
         .add_batch = add_questions,
         .loss_tolerance = 5e-7,
         .gradient_tolerance = 3e-6,
         .weight_tolerance = 1e-6});
  }
}

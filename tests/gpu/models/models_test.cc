// The state dicts of the models, and the arguments that are refused.
#include "gpu/models/models.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "tests/gpu/models/reference_file.h"
#include "tests/gpu/models/samples_by_formula.h"

TEST_SUITE("gpu/models") {
  using namespace es;
  using namespace es::gpu;
  using test::SampleSizes;

  const char* const kModels[] = {
      "mlp",
      "small_cnn",
      "resnet18",
      "resnet34",
      "resnet50",
      "resnet101",
      "resnet152",
      "shufflenetv2",
      "vgg11",
      "shufflenetv2_x0_5",
      "shufflenetv2_x1_5",
      "shufflenetv2_x2_0",
      "vgg13",
      "vgg16",
      "vgg19",
      "swin_t",
      "swin_s",
      "swin_b",
      "yolov3",
      "neumf",
      "bert",
      "bert_large",
      "electra",
      "electra_base",
      "electra_large",
      "gpt2",
      "gpt2_medium",
      "gpt2_large",
      "gpt2_xl",
      "llama",
      "llama_1b",
      "llama_3b",
  };

  std::int32_t published_vocabulary(const std::string& model) {
    if (model.starts_with("gpt2")) return 50257;
    if (model == "llama") return 32000;
    return model.starts_with("llama") ? 128256 : 30522;
  }

  // The sizes for which the published numbers of parameters hold.
  SampleSizes published_sizes(const std::string& model) {
    const Task task = task_of({.name = model});
    return {.side = task == Task::kDetection ? 96 : 32,
            .classes = task == Task::kDetection ? 80 : 1000,
            .vocabulary = published_vocabulary(model),
            .users = 943,
            .items = 1682};
  }

  Result<Graph> build(const ModelSpec& spec, const SampleSizes& sizes, std::int64_t batch = 2) {
    return build_model(spec, batch, test::sample_layout(task_of(spec), sizes));
  }

  Result<Graph> build_published(const std::string& model) {
    const SampleSizes sizes = published_sizes(model);
    return build({.name = model, .classes = static_cast<std::uint32_t>(sizes.classes)}, sizes);
  }

  TEST_CASE("every published model has the names and shapes of PyTorch") {
    for (const std::string model : kModels) {
      CAPTURE(model);
      const Result<Graph> g = build_published(model);
      REQUIRE_MESSAGE(g.ok(), g.error().message);
      const test::ModelReference expected = test::read_reference(model);
      test::Shapes params, stats;
      for (const ParamInfo& p : g->table.params()) params[p.name] = p.torch_shape;
      for (const StatInfo& s : g->table.stats()) stats[s.name] = {s.count};
      CHECK(params == expected.params);
      CHECK(stats == expected.stats);
    }
  }

  TEST_CASE("published models have the published numbers of parameters") {
    const auto count = [](const char* model) {
      return build_published(model)->table.parameter_count();
    };
    CHECK(count("resnet34") == 21'797'672);
    CHECK(count("resnet50") == 25'557'032);
    CHECK(count("resnet101") == 44'549'160);
    CHECK(count("resnet152") == 60'192'808);
    CHECK(count("shufflenetv2") == 2'278'604);
    CHECK(count("shufflenetv2_x0_5") == 1'366'792);
    CHECK(count("shufflenetv2_x1_5") == 3'503'624);
    CHECK(count("shufflenetv2_x2_0") == 7'393'996);
    CHECK(count("vgg11") == 132'863'336);
    CHECK(count("vgg13") == 133'047'848);
    CHECK(count("vgg16") == 138'357'544);
    CHECK(count("vgg19") == 143'667'240);
    CHECK(count("swin_t") == 28'288'354);
    CHECK(count("swin_s") == 49'606'258);
    CHECK(count("swin_b") == 87'768'224);
    CHECK(count("yolov3") == 61'949'149);
    CHECK(count("bert") == 108'893'186);
    CHECK(count("bert_large") == 334'094'338);
    CHECK(count("electra") == 13'483'522);
    CHECK(count("electra_base") == 108'893'186);
    CHECK(count("electra_large") == 334'094'338);
    CHECK(count("gpt2") == 124'439'808);
    CHECK(count("gpt2_medium") == 354'823'168);
    CHECK(count("gpt2_large") == 774'030'080);
    CHECK(count("gpt2_xl") == 1'557'611'200);
    CHECK(count("llama") == 100'092'672);
    CHECK(count("llama_1b") == 1'235'814'400);
    CHECK(count("llama_3b") == 3'212'749'824);
    CHECK(count("neumf") == 107'761);
    const auto small = [](const char* model, std::int64_t side) {
      return build({.name = model}, {.side = side})->table.parameter_count();
    };
    CHECK(small("resnet18", 32) == 11'173'962);
    CHECK(small("mlp", 28) == 318'986);
  }

  TEST_CASE("weights start with the variance that the model publishes") {
    const auto bound = [](const char* model, const std::string& parameter) {
      const Result<Graph> g = build_published(model);
      for (const ParamInfo& p : g->table.params())
        if (p.name == parameter) return double(p.init.bound);
      FAIL("no parameter ", parameter);
      return 0.0;
    };
    const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-6); };
    CHECK(bound("resnet50", "layer1.0.conv2.weight") == near(std::sqrt(6.0 / (64 * 9))));
    CHECK(bound("resnet50", "fc.bias") == near(1 / std::sqrt(2048.0)));
    CHECK(bound("shufflenetv2", "stage2.0.branch1.0.weight") == near(1 / std::sqrt(9.0)));
    CHECK(bound("vgg19", "features.2.weight") == near(std::sqrt(6.0 / (64 * 9))));
    CHECK(bound("vgg19", "features.2.bias") == 0.0);
    CHECK(bound("vgg19", "classifier.3.weight") == near(0.01 * std::sqrt(3.0)));
    CHECK(bound("swin_t", "features.1.0.attn.qkv.weight") == near(0.02 * std::sqrt(3.0)));
    CHECK(bound("swin_t", "features.0.0.bias") == near(1 / std::sqrt(48.0)));
    CHECK(bound("neumf", "gu.weight") == near(0.01 * std::sqrt(3.0)));
    CHECK(bound("bert", "bert.embeddings.word_embeddings.weight") == near(0.02 * std::sqrt(3.0)));
    CHECK(bound("electra", "qa_outputs.bias") == 0.0);
    CHECK(bound("gpt2", "transformer.h.0.mlp.c_fc.weight") == near(0.02 * std::sqrt(3.0)));
    // Layers that end a residual branch begin smaller, by the root of the number of branches.
    CHECK(bound("gpt2", "transformer.h.0.mlp.c_proj.weight") == near(0.02 * std::sqrt(3.0 / 24.0)));
    CHECK(bound("llama", "model.embed_tokens.weight") == near(0.02 * std::sqrt(3.0)));
  }

  TEST_CASE("tiny models are small and train on small samples") {
    for (const std::string model : kModels) {
      CAPTURE(model);
      const SampleSizes sizes{.side = 32, .tokens = 16};
      const Result<Graph> g = build({.name = model, .size = "tiny"}, sizes);
      REQUIRE_MESSAGE(g.ok(), g.error().message);
      CHECK(g->table.parameter_count() < 1'000'000);
    }
  }

  TEST_CASE(
      "evaluation gets a classifier's logits, two rows per question, three heads, a row "
      "per token") {
    const auto shape = [](const char* model, std::size_t output) {
      const Result<Graph> g = build({.name = model, .size = "tiny"}, {.side = 64, .tokens = 16});
      return g->shape(g->outputs[output]);
    };
    CHECK(shape("resnet50", 0) == TensorShape{2, 10});
    CHECK(shape("neumf", 0) == TensorShape{2, 1});
    CHECK(shape("bert", 0) == TensorShape{2, 2, 16});
    CHECK(shape("gpt2", 0) == TensorShape{2, 16, 50});
    CHECK(shape("llama", 0) == TensorShape{2, 16, 50});
    CHECK(shape("yolov3", 0) == TensorShape{2, 2, 2, 45});
    CHECK(shape("yolov3", 2) == TensorShape{2, 8, 8, 45});
  }

  std::string error_of(const Result<Graph>& graph) {
    REQUIRE_FALSE(graph.ok());
    CHECK(graph.error().kind == ErrorKind::kUsage);
    return graph.error().message;
  }

  TEST_CASE("an unknown model, size or option is refused, and the error lists what is allowed") {
    CHECK(
        error_of(build({.name = "vgg"}, {})) ==
        "model.name = \"vgg\": allowed is small_cnn, resnet18, mlp, resnet34, resnet50, resnet101, "
        "resnet152, shufflenetv2, shufflenetv2_x0_5, shufflenetv2_x1_5, shufflenetv2_x2_0, vgg11, "
        "vgg13, vgg16, vgg19, swin_t, swin_s, swin_b, yolov3, neumf, bert, bert_large, electra, "
        "electra_base, electra_large, gpt2, gpt2_medium, gpt2_large, gpt2_xl, llama, llama_1b, "
        "llama_3b");
    CHECK(error_of(build({.name = "bert", .size = "large"}, {})) ==
          "model.size = \"large\": allowed is published, tiny");
    CHECK(error_of(build({.name = "resnet50", .width = 32}, {})) ==
          "model.width = 32: resnet50 has no width of its own; allowed is 0");
    CHECK(
        error_of(build({.name = "resnet50", .dropout = 0.5}, {})).find("resnet50 has no dropout") !=
        std::string::npos);
  }

  TEST_CASE("batch norm over one value per channel is refused by name, as in PyTorch") {
    const std::string error = error_of(build({.name = "resnet18"}, {.side = 8}, 1));
    CHECK(error ==
          "model resnet18: batch_norm \"layer4.0.bn1\": its input [1,1,1,512] has one value per "
          "channel, whose variance is 0: allowed are at least 2, by a larger batch_size or larger "
          "images");
    CHECK(build({.name = "resnet18"}, {.side = 8}, 2).ok());
    CHECK(build({.name = "resnet18"}, {.side = 9}, 1).ok());  // 2 x 2 pixels in the last layer.
    CHECK(build({.name = "vgg19"}, {.side = 32}, 1).ok());    // There is no batch norm.
  }

  template <class Number>
  Number number_at(const BufferInfo& buffer, std::size_t index) {
    Number number;
    std::memcpy(&number, buffer.bytes.data() + index * sizeof(Number), sizeof(Number));
    return number;
  }

  TEST_CASE("the buffers of the state dicts are those that follow from the model") {
    const auto buffers = [](const char* model, const char* size) {
      const SampleSizes sizes = published_sizes(model);
      const Result<Graph> g =
          build({.name = model, .size = size, .classes = static_cast<std::uint32_t>(sizes.classes)},
                sizes);
      return g->table.buffers();
    };
    const auto swin = buffers("swin_t", "published");
    REQUIRE(swin.size() == 12);
    CHECK(swin[11].name == "features.7.1.attn.relative_position_index");
    CHECK(swin[11].torch_shape == std::vector<std::int64_t>{2401});
    CHECK(number_at<std::int64_t>(swin[11], 1) == 83);
    CHECK(swin[11].current);
    const auto bert = buffers("bert", "published");
    REQUIRE(bert.size() == 1);
    CHECK(bert[0].name == "bert.embeddings.position_ids");
    CHECK(bert[0].torch_shape == std::vector<std::int64_t>{1, 512});
    CHECK_FALSE(bert[0].current);
    const auto yolo = buffers("yolov3", "tiny");
    REQUIRE(yolo.size() == 1);
    CHECK(yolo[0].name == "model.28.anchors");
    CHECK(number_at<float>(yolo[0], 0) == 1.25F);
    CHECK(buffers("resnet50", "tiny").empty());
  }

  TEST_CASE("samples that do not fit the model are refused by field") {
    CHECK(error_of(build({.name = "vgg19"}, {.side = 28})) ==
          "model vgg19: field \"image\" of the samples is 28 x 28 pixels: allowed is at least 32 a "
          "side");
    CHECK(error_of(build({.name = "yolov3"}, {.side = 100})) ==
          "model yolov3: field \"image\" of the samples is 100 x 100 pixels: allowed is at least "
          "32 a side, in multiples of 32");
    CHECK(error_of(build({.name = "resnet50", .classes = 10}, {.classes = 100})) ==
          "model resnet50: field \"label\" of the samples has values up to 99, but model.classes = "
          "10: allowed is 100");
    CHECK(error_of(build({.name = "bert"}, {.tokens = 513})) ==
          "model bert: field \"ids\" has 513 tokens: allowed is at most 512 (data.tokens)");
    CHECK(error_of(build({.name = "bert"}, {.tokens = 1})) ==
          "model bert: field \"ids\" of the samples has 1 token: allowed are at least 2");
    CHECK(error_of(build({.name = "gpt2"}, {.tokens = 1025})) ==
          "model gpt2: field \"ids\" has 1025 tokens: allowed is at most 1024 (data.length)");
    CHECK(error_of(build({.name = "llama", .size = "tiny"}, {.tokens = 129})) ==
          "model llama: field \"ids\" has 129 tokens: allowed is at most 128 (data.length)");
  }

  TEST_CASE("samples of another task are refused by the missing field") {
    CHECK(error_of(build_model({.name = "bert"}, 2, test::sample_layout(Task::kClassification))) ==
          "model bert: field \"ids\" of the samples is missing: they have image, label");
    SampleLayout layout = test::sample_layout(Task::kClassification);
    layout.fields[1].type = FieldType::kF32;
    CHECK(error_of(build_model({.name = "mlp"}, 2, layout)) ==
          "model mlp: field \"label\" of the samples has another type: allowed is int32");
    layout = test::sample_layout(Task::kQuestionAnswering);
    layout.fields[3].high = 20;
    CHECK(
        error_of(build_model({.name = "electra"}, 2, layout)) ==
        "model electra: field \"span\" of the samples has values up to 20: allowed is at most 19, "
        "the last token");
    layout = test::sample_layout(Task::kLanguage);
    layout.fields[1].high = 20;
    CHECK(error_of(build_model({.name = "gpt2"}, 2, layout)) ==
          "model gpt2: field \"labels\" of the samples has another shape or range than \"ids\": "
          "allowed are 20 tokens from 0 to 49");
  }

  TEST_CASE("tied weights have the names of both layers") {
    const auto aliases = [](const char* model, const char* size) {
      return build({.name = model, .size = size}, published_sizes(model))->table.aliases();
    };
    for (const char* model : {"gpt2", "llama"}) {
      CAPTURE(model);
      const auto tied = aliases(model, "published");
      REQUIRE(tied.size() == 1);
      CHECK(tied[0].name == "lm_head.weight");
      CHECK(tied[0].param == 0);
    }
    CHECK(aliases("llama", "tiny").empty());
  }
}

// Programs for one more token have the bits of the whole model, and what is not known is refused.
#include "gpu/import/token_program.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "gpu/engine/engine.h"
#include "gpu/import/adapters.h"
#include "gpu/import/check.h"
#include "gpu/import/import.h"
#include "gpu/models/models.h"
#include "tests/gpu/import/program_writer.h"
#include "tests/gpu/models/samples_by_formula.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/import/token_program") {
  using namespace es;
  using namespace es::gpu;
  using es::test::ProgramWriter;
  using Bits = std::vector<std::uint32_t>;
  using Text = std::vector<std::uint32_t>;

  constexpr std::int32_t kVocabulary = 50;

  ModelProgram built_in(const std::string& model, std::int64_t tokens) {
    const SampleLayout layout =
        test::sample_layout(Task::kLanguage, {.tokens = tokens, .vocabulary = kVocabulary});
    auto program = write_model({.name = model, .size = "tiny", .dropout = 0.0}, 1, layout);
    REQUIRE_MESSAGE(program.ok(), (program.ok() ? "" : program.error().message));
    return *std::move(program);
  }

  // One attention layer as a captured model may write it: `kind` of attention, and `extra` inputs.
  struct SmallDecoder {
    std::int64_t tokens = 12, width = 8, heads = 2;
    bool causal = true, masked = false, mixes = false, rolled = false;
    bool joined = false;   // its last layer reads the tokens of all samples as one matrix
    bool dropped = false;  // training drops its embeddings of whole samples

    ModelProgram program() const {
      ProgramWriter w;
      const ValueId ids = w.ids("ids", {tokens}, kVocabulary - 1);
      const ValueId labels = w.ids("labels", {tokens}, kVocabulary - 1);
      ValueId x = w.node("embedding", {w.parameter("words.weight", {kVocabulary, width}), ids});
      x = w.node("add", {x, w.parameter("places.weight", {tokens, width})});
      if (dropped) x = w.node("sample_dropout", {x}, {{"p", 0.5}, {"site", std::int64_t{0}}});
      if (mixes) x = w.node("softmax", {x}, {{"axis", std::int64_t{1}}});
      if (rolled) x = w.node("roll", {x}, {{"axis", std::int64_t{1}}, {"shift", std::int64_t{1}}});
      const auto heads_of = [&](const char* name) {
        const ValueId y = w.linear(name, x, width);
        const ValueId split =
            w.shaped("reshape", y, test::per_sample({tokens, heads, width / heads}));
        return w.node("permute", {split}, {{"order", std::vector<std::int64_t>{0, 2, 1, 3}}});
      };
      std::vector<ValueId> inputs{heads_of("q"), heads_of("k"), heads_of("v")};
      if (masked) inputs.push_back(w.constant({1, 1, 1, tokens}, std::vector<float>(tokens, 0.5F)));
      ValueId y = w.node("attention", inputs, {{"causal", causal}, {"scale", 0.3}});
      y = w.node("permute", {y}, {{"order", std::vector<std::int64_t>{0, 2, 1, 3}}});
      if (joined) {
        y = w.shaped("reshape", y, {{tokens, true}, {width, false}});
        y = w.node("matmul", {y, w.parameter("out.weight", {width, kVocabulary})});
        y = w.shaped("reshape", y, test::per_sample({tokens, kVocabulary}));
      } else {
        y = w.linear("out", w.shaped("reshape", y, test::per_sample({tokens, width})), kVocabulary);
      }
      const ValueId classes =
          w.node("permute", {y}, {{"order", std::vector<std::int64_t>{0, 2, 1}}});
      w.program.loss = w.node("cross_entropy", {classes, labels}, {{"reduction", "mean"}});
      w.output("logits", y);
      REQUIRE(check_program(w.program).ok());
      return w.program;
    }
  };

  Graph graph_of(const ModelProgram& program, std::int64_t batch) {
    auto graph = import_model(program, batch);
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    return *std::move(graph);
  }

  Bits bits_of(std::span<const float> values) {
    Bits bits;
    for (const float v : values) bits.push_back(std::bit_cast<std::uint32_t>(v));
    return bits;
  }

  // A whole model, and the program for one token of `texts` texts.
  class Decoder {
   public:
    Decoder(const ModelProgram& model, std::size_t texts, CpuClass cpu_class,
            DeviceKind device = DeviceKind::kCpu)
        : texts_(texts) {
      auto made = token_program(model, 0, 0);
      REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().message));
      program_ = *std::move(made);
      JobSpec spec;
      spec.max_p = 1;
      spec.batch_size = 1;
      spec.level = DeterminismLevel::kD2;
      auto engine = Engine::create(
          spec, graph_of(program_.whole, 1),
          {.cpu_class = cpu_class, .device = device, .threads = 2, .all_threads = true});
      REQUIRE_MESSAGE(engine.ok(), (engine.ok() ? "" : engine.error().message));
      engine_ = *std::move(engine);
      install_random();
      const Status added =
          engine_->add_forward(graph_of(program_.token, static_cast<std::int64_t>(texts)));
      REQUIRE_MESSAGE(added.ok(), (added.ok() ? "" : added.error().message));
      layout_ = program_layout(program_.token);
      words_.resize(texts * static_cast<std::size_t>(layout_.words()));
    }

    // The logits of all places of a text, which is as long as the model.
    Bits whole(const Text& text) {
      std::vector<float> words;
      for (int field = 0; field < 2; ++field)
        for (const std::uint32_t t : text) words.push_back(std::bit_cast<float>(t));
      const auto result = engine_->evaluate({words.data()}, 1);
      REQUIRE(result.ok());
      return bits_of(result->outputs[0]);
    }

    // The logits [text][vocabulary] behind the tokens at `places`, whose keys and values are kept.
    Bits step(const std::vector<Text>& texts, const std::vector<std::size_t>& places) {
      for (std::size_t t = 0; t < texts_; ++t) {
        words_[t] = std::bit_cast<float>(texts[t][places[t]]);
        words_[texts_ + t] = std::bit_cast<float>(static_cast<std::uint32_t>(places[t]));
      }
      const auto outputs = engine_->evaluate_forward({words_.data()});
      REQUIRE_MESSAGE(outputs.ok(), (outputs.ok() ? "" : outputs.error().message));
      const Bits logits = bits_of(outputs->front());
      std::size_t field = texts_ * 2;
      for (std::size_t c = 0; c < program_.caches.size(); ++c) {
        const auto [heads, width] = program_.caches[c];
        const auto rows = static_cast<std::size_t>(heads);
        const auto columns = static_cast<std::size_t>(width);
        const auto length = static_cast<std::size_t>(program_.length);
        for (std::size_t t = 0; t < texts_; ++t)
          for (std::size_t h = 0; h < rows; ++h)
            std::ranges::copy(
                (*outputs)[1 + c].subspan((t * rows + h) * columns, columns),
                words_.begin() + static_cast<std::ptrdiff_t>(
                                     field + ((t * rows + h) * length + places[t]) * columns));
        field += texts_ * rows * length * columns;
      }
      return logits;
    }

   private:
    // Parameters that make all values differ; initial ones are often zero.
    void install_random() {
      REQUIRE(engine_->init_replica().ok());
      Replica replica = engine_->replica();
      std::mt19937_64 random(test::seed("token program"));
      std::uniform_real_distribution<float> value(-0.4F, 0.4F);
      for (const ParamInfo& p : engine_->table().params())
        for (std::int64_t i = 0; i < p.count; ++i)
          replica.params.data()[p.offset + i] = value(random);
      REQUIRE(engine_->install(std::move(replica)).ok());
    }

    std::size_t texts_;
    TokenProgram program_;
    std::unique_ptr<Engine> engine_;
    SampleLayout layout_;
    std::vector<float> words_;
  };

  std::vector<Text> random_texts(std::size_t count, std::int64_t length) {
    std::mt19937_64 random(test::seed("texts of tokens"));
    std::uniform_int_distribution<std::uint32_t> token(0, kVocabulary - 1);
    std::vector<Text> texts(count, Text(static_cast<std::size_t>(length)));
    for (Text& text : texts) std::ranges::generate(text, [&] { return token(random); });
    return texts;
  }

  // Several texts, each of which is two places ahead of the one before.
  void compare(const ModelProgram& model, std::int64_t length, std::size_t texts, CpuClass c,
               DeviceKind device = DeviceKind::kCpu) {
    Decoder decoder(model, texts, c, device);
    const std::vector<Text> all = random_texts(texts, length);
    std::vector<Bits> whole;
    for (const Text& text : all) whole.push_back(decoder.whole(text));
    const auto size = static_cast<std::size_t>(length);
    std::vector<std::size_t> places(texts, 0);
    for (std::size_t i = 0; i < size + 2 * texts; ++i) {
      const Bits logits = decoder.step(all, places);
      for (std::size_t t = 0; t < texts; ++t) {
        const auto expected =
            whole[t].begin() + static_cast<std::ptrdiff_t>(places[t] * kVocabulary);
        const auto found = logits.begin() + static_cast<std::ptrdiff_t>(t * kVocabulary);
        const bool same = std::equal(expected, expected + kVocabulary, found);
        CHECK_MESSAGE(same, "text " << t << ", place " << places[t]);
        // A place that is computed again gives the same.
        if (i >= 2 * t && places[t] + 1 < size) ++places[t];
      }
    }
  }

  TEST_CASE("each token has the bits of the whole model") {
    for (const CpuClass c : supported_cpu_classes()) {
      CAPTURE(device_type(c).name);
      for (const char* model : {"gpt2", "llama"}) {
        CAPTURE(model);
        compare(built_in(model, 37), 37, 1, c);
        compare(built_in(model, 20), 20, 3, c);
      }
      compare(SmallDecoder{}.program(), 12, 2, c);
      compare(SmallDecoder{.joined = true}.program(), 12, 2, c);
      compare(SmallDecoder{.dropped = true}.program(), 12, 2, c);
    }
  }

  TEST_CASE("a text of more keys than a chunk of a sum has the bits of the whole model") {
    // The sum over keys has chunks of 512.
    compare(SmallDecoder{.tokens = 530}.program(), 530, 1, supported_cpu_classes().back());
  }

  TEST_CASE("adapters are a part of the program") {
    const auto adapted = with_adapters(
        built_in("llama", 16), {.rank = 2, .alpha = 4.0, .dropout = 0.0, .targets = {"*q_proj"}});
    REQUIRE(adapted.ok());
    compare(*adapted, 16, 1, supported_cpu_classes().back());
  }

  TEST_CASE("the kernels of a GPU give the same bits, on host memory") {
    compare(built_in("gpt2", 6), 6, 2, CpuClass::kScalar, DeviceKind::kCudaHost);
    compare(built_in("llama", 6), 6, 1, CpuClass::kScalar, DeviceKind::kCudaHost);
  }

  TEST_CASE("a model in which tokens meet outside of a causal attention is refused, by its node") {
    const auto error = [](const SmallDecoder& decoder) {
      const auto made = token_program(decoder.program(), 0, 0);
      return made ? std::string("made") : made.error().message;
    };
    CHECK(error({}) == "made");
    CHECK(error({.causal = false}).find("(attention) is not causal") != std::string::npos);
    CHECK(error({.masked = true}).find("(attention) has a mask") != std::string::npos);
    CHECK(error({.mixes = true}).find("(softmax) mixes tokens") != std::string::npos);
    CHECK(error({.rolled = true}).find("(roll) mixes tokens") != std::string::npos);
    CHECK(error({.tokens = 1}) == "a text has one token");
    es::ModelProgram counting = SmallDecoder().program();
    counting.states = {{.name = "steps", .dtype = "F32", .value = 0}};
    CHECK(token_program(counting, 0, 0).error().message == "the model keeps states");
  }

  TEST_CASE("a second model with other parameters is refused") {
    JobSpec spec;
    spec.batch_size = 1;
    auto engine = Engine::create(spec, graph_of(built_in("gpt2", 8), 1), {});
    REQUIRE(engine.ok());
    const Status added = (*engine)->add_forward(graph_of(built_in("llama", 8), 1));
    REQUIRE_FALSE(added.ok());
    CHECK(added.error().kind == ErrorKind::kUsage);
  }
}

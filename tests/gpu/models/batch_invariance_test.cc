// The logits of a sample do not depend on the other samples of its mini-batch, on the tokens and
// the padding behind them, nor on whether they are computed in training or in an evaluation.
#include <doctest/doctest.h>

#include <bit>
#include <random>

#include "gpu/engine/engine.h"
#include "tests/gpu/models/samples_by_formula.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/models/batch_invariance") {
  using namespace es;
  using namespace es::gpu;

  constexpr std::int64_t kTokens = 20;
  constexpr std::int32_t kVocabulary = 50;
  constexpr std::uint64_t kMany = 32;

  using Bits = std::vector<std::uint32_t>;
  using Tokens = std::vector<std::int32_t>;

  Bits bits_of(std::span<const float> values) {
    Bits bits;
    for (const float v : values) bits.push_back(std::bit_cast<std::uint32_t>(v));
    return bits;
  }

  std::vector<Tokens> random_sequences(std::uint64_t count, std::int64_t length) {
    std::mt19937_64 random(test::seed("batch invariance"));
    std::uniform_int_distribution<std::int32_t> token(0, kVocabulary - 1);
    std::vector<Tokens> all(count, Tokens(static_cast<std::size_t>(length)));
    for (Tokens& sequence : all)
      for (std::int32_t& t : sequence) t = token(random);
    return all;
  }

  // Keeps the values of one tensor of a local step.
  class TensorReader final : public OpObserver {
   public:
    TensorReader(const Engine& engine, TensorId tensor) : engine_(engine), tensor_(tensor) {}
    void begin_op(const Op&) override {}
    void end_op(const Op& op) override {
      for (const TensorId t : op.out)
        if (t == tensor_) found = bits_of(engine_.values(t));
    }

    Bits found;

   private:
    const Engine& engine_;
    TensorId tensor_;
  };

  // A tiny model without dropout for mini-batches of `batch` sequences of `tokens`.
  class TinyDecoder {
   public:
    TinyDecoder(const std::string& model, std::uint64_t batch, std::int64_t tokens,
                CpuClass cpu_class) {
      JobSpec spec;
      spec.max_p = 1;
      spec.batch_size = static_cast<std::uint32_t>(batch);
      spec.level = DeterminismLevel::kD2;
      spec.model = {.name = model, .size = "tiny", .dropout = 0.0};
      const SampleLayout layout =
          test::sample_layout(Task::kLanguage, {.tokens = tokens, .vocabulary = kVocabulary});
      auto created = Engine::create(spec, layout, {.cpu_class = cpu_class});
      REQUIRE_MESSAGE(created.ok(), (created.ok() ? "" : created.error().message));
      engine_ = std::move(*created);
      REQUIRE(engine_->init_replica().ok());
    }

    // The logits of all sequences.
    Bits evaluated(std::span<const Tokens> sequences) {
      const std::vector<float> words = block(sequences);
      const auto result = engine_->evaluate({words.data()}, sequences.size());
      REQUIRE(result.ok());
      return bits_of(result->outputs[0]);
    }

    Bits in_training(std::span<const Tokens> sequences) {
      const std::vector<float> words = block(sequences);
      TensorReader reader(*engine_, engine_->graph().outputs[0]);
      engine_->set_observer(&reader);
      AlignedBuffer grad(engine_->table().total_floats());
      EstContext next;
      REQUIRE(
          engine_->local_step(0, {words.data()}, {}, grad.data(), next, [](std::uint32_t) {}).ok());
      engine_->set_observer(nullptr);
      return reader.found;
    }

   private:
    // The labels are the tokens: only the loss reads them.
    static std::vector<float> block(std::span<const Tokens> sequences) {
      std::vector<float> words;
      for (int field = 0; field < 2; ++field)
        for (const Tokens& sequence : sequences)
          for (const std::int32_t t : sequence) words.push_back(std::bit_cast<float>(t));
      return words;
    }

    std::unique_ptr<Engine> engine_;
  };

  Bits part(const Bits& all, std::size_t index, std::size_t parts) {
    const std::size_t size = all.size() / parts;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(index * size);
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
  }

  TEST_CASE("the logits of a sample are the same alone and in a mini-batch, and in training") {
    const std::vector<Tokens> sequences = random_sequences(kMany, kTokens);
    for (const char* model : {"gpt2", "llama"})
      for (const CpuClass c : supported_cpu_classes()) {
        CAPTURE(model);
        CAPTURE(device_type(c).name);
        TinyDecoder one(model, 1, kTokens, c), many(model, kMany, kTokens, c);
        const Bits all = many.evaluated(sequences);
        REQUIRE(all.size() == kMany * kTokens * kVocabulary);
        CHECK(many.in_training(sequences) == all);
        for (std::size_t i = 0; i < kMany; ++i) {
          CAPTURE(i);
          const auto own = std::span(sequences).subspan(i, 1);
          CHECK(one.evaluated(own) == part(all, i, kMany));
          CHECK(one.in_training(own) == part(all, i, kMany));
        }
      }
  }

  // esctl generate computes with sequences that are as long as it needs.
  TEST_CASE("the logits of a token do not depend on the tokens and on the places behind it") {
    constexpr std::int64_t kLong = 61;
    const std::vector<Tokens> sequences = random_sequences(2, kLong);
    for (const char* model : {"gpt2", "llama"})
      for (const CpuClass c : supported_cpu_classes()) {
        CAPTURE(model);
        CAPTURE(device_type(c).name);
        const Bits whole = TinyDecoder(model, 1, kLong, c).evaluated({{sequences[0]}});
        for (const std::int64_t tokens : {1, 2, 7, 16, 17, 60}) {
          CAPTURE(tokens);
          Tokens begin(sequences[0].begin(), sequences[0].begin() + tokens);
          const Bits shorter = TinyDecoder(model, 1, tokens, c).evaluated({{begin}});
          CHECK(shorter == Bits(whole.begin(), whole.begin() + tokens * kVocabulary));
          Tokens other = sequences[1];
          std::copy(begin.begin(), begin.end(), other.begin());
          const Bits changed = TinyDecoder(model, 1, kLong, c).evaluated({{other}});
          CHECK(part(changed, 0, 1).size() == whole.size());
          CHECK(std::equal(shorter.begin(), shorter.end(), changed.begin()));
        }
      }
  }
}

// Language models on windows with several documents.
#include <doctest/doctest.h>

#include <bit>
#include <numeric>

#include "actors/worker/job_model/job_model.h"
#include "gpu/engine/engine.h"
#include "tests/store/dataset/tokens/token_files.h"
#include "tests/store/temp_directory.h"

namespace es::actors {
namespace {

using Tokens = std::vector<std::uint16_t>;

constexpr int kEnd = 7;
constexpr std::uint32_t kVocabulary = 20;
const Tokens kDocuments[] = {{3, 4, 9, 5, kEnd}, {11, 2, kEnd}, {6, 4, 9, kEnd}};

Tokens joined() {
  Tokens all;
  for (const Tokens& document : kDocuments) all.insert(all.end(), document.begin(), document.end());
  return all;
}

struct Window {
  std::vector<float> logits;
  double loss = 0;    // the sum over all tokens
  double tokens = 0;  // that count in it
};

// Evaluates a model from its seed on one window of all tokens. The label of the last one is 1.
Window window_of(const std::string& model, const Tokens& tokens, int document_end = kEnd) {
  es::test::TempDirectory directory;
  Tokens file = tokens;
  file.push_back(1);
  for (const char* name : {"train.bin", "val.bin"})
    es::test::write_file(directory / name, es::test::npy_data(file));
  JobSpec spec{.batch_size = 1};
  spec.model = {.name = model, .size = "tiny"};
  spec.data.kind = "tokens";
  spec.data.path = directory.path().string();
  spec.data.vocabulary = kVocabulary;
  spec.data.length = static_cast<std::uint32_t>(tokens.size());
  spec.data.document_end = document_end;
  const auto job = JobModel::open(spec.model);
  const auto source = job->open_samples(spec);
  REQUIRE_MESSAGE(source.ok(), (source.ok() ? "" : source.error().message));
  auto graph = job->graph(spec, (*source)->layout());
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  const auto engine =
      gpu::Engine::create(spec, *std::move(graph), {.cpu_class = CpuClass::kScalar});
  REQUIRE_MESSAGE(engine.ok(), (engine.ok() ? "" : engine.error().message));
  REQUIRE((*engine)->init_replica().ok());
  std::vector<float> words(static_cast<std::size_t>((*source)->layout().words()));
  REQUIRE((*source)->fill_eval(0, 1, 1, words).ok());
  const auto batch = (*engine)->evaluate({words.data()}, 1);
  REQUIRE_MESSAGE(batch.ok(), (batch.ok() ? "" : batch.error().message));
  const auto length = static_cast<double>(tokens.size());
  return {{batch->outputs[0].begin(), batch->outputs[0].end()},
          batch->losses[0] * length,
          batch->weights[0] * length};
}

std::vector<std::uint32_t> bits_from(const Window& window, std::size_t token) {
  std::vector<std::uint32_t> bits;
  for (std::size_t i = token * kVocabulary; i < window.logits.size(); ++i)
    bits.push_back(std::bit_cast<std::uint32_t>(window.logits[i]));
  return bits;
}

const char* const kModels[] = {"gpt2", "llama"};

}  // namespace

TEST_SUITE("actors/worker/job_model/documents") {
  TEST_CASE("the loss of a window is the sum of the losses of its documents alone") {
    for (const char* model : kModels) {
      CAPTURE(model);
      const Window packed = window_of(model, joined());
      double loss = 0, tokens = 0;
      for (const Tokens& document : kDocuments) {
        const Window alone = window_of(model, document);
        loss += alone.loss;
        tokens += alone.tokens;
      }
      CHECK(packed.tokens == doctest::Approx(tokens));
      CHECK(packed.tokens == doctest::Approx(9.0));  // the ends of documents have no next token
      CHECK(packed.loss == doctest::Approx(loss).epsilon(1e-6));
      const Window one = window_of(model, joined(), -1);
      CHECK(one.tokens == doctest::Approx(12.0));
    }
  }

  TEST_CASE("no bit of a document depends on those before it") {
    const std::size_t first = kDocuments[0].size();
    Tokens other = joined();
    other[1] = 13;
    for (const char* model : kModels) {
      CAPTURE(model);
      const Window before = window_of(model, joined()), after = window_of(model, other);
      CHECK(bits_from(before, first) == bits_from(after, first));
      CHECK_FALSE(bits_from(before, 1) == bits_from(after, 1));
      // As one document they do.
      CHECK_FALSE(bits_from(window_of(model, joined(), -1), first) ==
                  bits_from(window_of(model, other, -1), first));
    }
  }
}

}  // namespace es::actors

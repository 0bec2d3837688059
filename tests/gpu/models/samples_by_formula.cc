#include "tests/gpu/models/samples_by_formula.h"

#include <bit>

namespace es::test {
namespace {

std::uint32_t hash_of(const std::string& name, std::size_t i) {
  std::uint32_t seed = 2166136261U;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 16777619U;
  std::uint32_t h = static_cast<std::uint32_t>(i + 1) * 2654435761U + seed;
  for (int round = 0; round < 2; ++round) h = (h ^ (h >> 16)) * 0x45D9F3BU;
  return h ^ (h >> 16);
}

// Fields one after the other.
class Words {
 public:
  void add(const std::vector<float>& values) {
    words_.insert(words_.end(), values.begin(), values.end());
  }
  void add(const std::vector<std::int32_t>& values) {
    for (const std::int32_t v : values) words_.push_back(std::bit_cast<float>(v));
  }
  std::vector<float> take() { return std::move(words_); }

 private:
  std::vector<float> words_;
};

std::vector<float> image(const SampleSizes& s, std::size_t batch) {
  std::vector<float> x = fill("image", batch * static_cast<std::size_t>(s.side * s.side * 3));
  for (float& v : x) v *= 4.0F;
  return x;
}

std::vector<std::int32_t> lengths(const SampleSizes& s, std::size_t batch) {
  const auto tokens = static_cast<std::int32_t>(s.tokens);
  std::vector<std::int32_t> n = integers("length", batch, static_cast<std::uint32_t>(tokens - 1));
  for (std::int32_t& v : n) v = tokens - v;
  return n;
}

// In [0.1, 0.9). The class is first; -1 means no box.
std::vector<float> boxes(const SampleSizes& s, std::size_t batch) {
  const std::size_t count = batch * static_cast<std::size_t>(s.boxes);
  std::vector<float> x = fill("boxes", 5 * count);
  const auto classes = integers("classes", count, static_cast<std::uint32_t>(s.classes + 1));
  for (float& v : x) v = 0.8F * v + 0.5F;
  for (std::size_t i = 0; i < count; ++i) x[5 * i] = static_cast<float>(classes[i] - 1);
  return x;
}

}  // namespace

std::vector<float> fill(const std::string& name, std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i)
    x[i] = static_cast<float>(hash_of(name, i) / 4294967296.0 - 0.5);
  return x;
}

std::vector<std::int32_t> integers(const std::string& name, std::size_t count,
                                   std::uint32_t bound) {
  std::vector<std::int32_t> x(count);
  for (std::size_t i = 0; i < count; ++i)
    x[i] = static_cast<std::int32_t>(hash_of(name, i) % bound);
  return x;
}

SampleLayout sample_layout(Task task, const SampleSizes& s) {
  const auto id = [](const char* name, std::int64_t height, std::int64_t channels,
                     std::int32_t high, std::int32_t low = 0) {
    return SampleField{name, FieldType::kI32, height, 1, channels, low, high};
  };
  const SampleField image{"image", FieldType::kF32, s.side, s.side, 3};
  const auto last = static_cast<std::int32_t>(s.tokens - 1);
  switch (task) {
    case Task::kClassification:
      return {{image, id("label", 1, 1, s.classes - 1)}};
    case Task::kRecommendation:
      return {{id("user", 1, 1, s.users - 1), id("item", 1, 1, s.items - 1),
               SampleField{"label", FieldType::kF32}}};
    case Task::kQuestionAnswering:
      return {{id("ids", s.tokens, 1, s.vocabulary - 1), id("types", s.tokens, 1, 1),
               id("length", 1, 1, last + 1, 1), id("span", 1, 2, last)}};
    case Task::kDetection:
      return {{image, SampleField{"boxes", FieldType::kF32, s.boxes, 1, 5}}};
    case Task::kLanguage:
      return {
          {id("ids", s.tokens, 1, s.vocabulary - 1), id("labels", s.tokens, 1, s.vocabulary - 1)}};
    case Task::kCaptured:
      break;
  }
  return {};
}

std::vector<float> reference_batch(Task task, const SampleSizes& s, std::int64_t batch) {
  const auto n = static_cast<std::size_t>(batch);
  const auto u = [](std::int64_t v) { return static_cast<std::uint32_t>(v); };
  Words words;
  switch (task) {
    case Task::kClassification:
      words.add(image(s, n));
      words.add(integers("label", n, u(s.classes)));
      break;
    case Task::kRecommendation: {
      words.add(integers("user", n, u(s.users)));
      words.add(integers("item", n, u(s.items)));
      const auto rated = integers("rated", n, 2);
      words.add(std::vector<float>(rated.begin(), rated.end()));
      break;
    }
    case Task::kQuestionAnswering:
      words.add(integers("ids", n * u(s.tokens), u(s.vocabulary)));
      words.add(integers("types", n * u(s.tokens), 2));
      words.add(lengths(s, n));
      words.add(integers("span", 2 * n, u(s.tokens)));
      break;
    case Task::kDetection:
      words.add(image(s, n));
      words.add(boxes(s, n));
      break;
    case Task::kLanguage:
      words.add(integers("ids", n * u(s.tokens), u(s.vocabulary)));
      words.add(integers("labels", n * u(s.tokens), u(s.vocabulary)));
      break;
    case Task::kCaptured:
      break;
  }
  return words.take();
}

}  // namespace es::test

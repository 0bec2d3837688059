// Byte form of MetricTotals, all little endian: version u32 = 3; samples u64; not_finite u64;
// loss_sum f64; loss_weight f64; then four lists, each with a count u64 and its items: sums (f64),
// answers (question u64, score f32, exact f64, f1 f64), boxes (label i32, score f32, hit u8),
// box_counts (u64).
#include <algorithm>
#include <array>
#include <bit>

#include "proto/base/check.h"
#include "store/metrics/metric.h"

namespace es::store {
namespace {

constexpr std::uint32_t kVersion = 3;

class Writer {
 public:
  template <class T>
  void put(T value) {
    const auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
    static_assert(std::endian::native == std::endian::little);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> out;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  T get() {
    std::array<std::byte, sizeof(T)> bytes{};
    if (rest_.size() < sizeof(T)) {
      // The rest is dropped, or a smaller field would be read from the bytes of one that was cut.
      short_ = true;
      rest_ = {};
    } else {
      std::copy_n(rest_.begin(), sizeof(T), bytes.begin());
      rest_ = rest_.subspan(sizeof(T));
    }
    return std::bit_cast<T>(bytes);
  }
  // Reads the number of items of a list, each of at least `item_bytes`. A number that the remaining
  // bytes cannot contain is an error, so a bad number never allocates memory.
  std::uint64_t count(std::size_t item_bytes) {
    const auto n = get<std::uint64_t>();
    // A division, because a product could overflow.
    if (n > rest_.size() / item_bytes) short_ = true;
    return short_ ? 0 : n;
  }
  bool complete() const { return !short_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool short_ = false;
};

template <class T>
void add_up(std::vector<T>& sums, const std::vector<T>& more) {
  // Totals to which nothing was added have empty lists.
  if (sums.size() < more.size()) sums.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) sums[i] += more[i];
}

void read_answers(Reader& reader, std::vector<ScoredAnswer>& answers) {
  // 28 bytes: u64, f32, f64 and f64.
  for (std::uint64_t n = reader.count(28); n > 0; --n) {
    ScoredAnswer answer;
    answer.question = reader.get<std::uint64_t>();
    answer.score = reader.get<float>();
    answer.exact = reader.get<double>();
    answer.f1 = reader.get<double>();
    answers.push_back(answer);
  }
}

// Returns false if a hit mark is neither 0 nor 1, or a label is negative.
bool read_boxes(Reader& reader, std::vector<ScoredBox>& boxes) {
  bool valid = true;
  // 9 bytes: i32, f32 and u8.
  for (std::uint64_t n = reader.count(9); n > 0; --n) {
    ScoredBox box;
    box.label = reader.get<std::int32_t>();
    box.score = reader.get<float>();
    const auto hit = reader.get<std::uint8_t>();
    valid = valid && hit <= 1 && box.label >= 0;
    box.hit = hit == 1;
    boxes.push_back(box);
  }
  return valid;
}

}  // namespace

void MetricTotals::append(const MetricTotals& next) {
  samples += next.samples;
  not_finite += next.not_finite;
  // Figures that contain a value that is not finite are meaningless, so only the counts stay. The
  // result is then the same in whatever way the samples were divided.
  if (not_finite > 0) {
    *this = {.samples = samples, .not_finite = not_finite};
    return;
  }
  loss_sum += next.loss_sum;
  loss_weight += next.loss_weight;
  add_up(sums, next.sums);
  add_up(box_counts, next.box_counts);
  boxes.insert(boxes.end(), next.boxes.begin(), next.boxes.end());
  for (const ScoredAnswer& answer : next.answers) {
    // The windows of one question may be divided between two parts. Then the better answer counts.
    if (answers.empty() || answers.back().question != answer.question)
      answers.push_back(answer);
    else if (answers.back().score < answer.score)
      answers.back() = answer;
  }
}

std::vector<std::byte> MetricTotals::encode() const {
  Writer writer;
  writer.put(kVersion);
  writer.put(samples);
  writer.put(not_finite);
  writer.put(loss_sum);
  writer.put(loss_weight);
  writer.put(std::uint64_t{sums.size()});
  for (const double sum : sums) writer.put(sum);
  writer.put(std::uint64_t{answers.size()});
  for (const ScoredAnswer& answer : answers) {
    writer.put(answer.question);
    writer.put(answer.score);
    writer.put(answer.exact);
    writer.put(answer.f1);
  }
  writer.put(std::uint64_t{boxes.size()});
  for (const ScoredBox& box : boxes) {
    writer.put(box.label);
    writer.put(box.score);
    writer.put(static_cast<std::uint8_t>(box.hit));
  }
  writer.put(std::uint64_t{box_counts.size()});
  for (const std::uint64_t count : box_counts) writer.put(count);
  return std::move(writer.out);
}

Result<MetricTotals> MetricTotals::decode(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto version = reader.get<std::uint32_t>();
  if (version != kVersion)
    return usage_error("metric totals: version = " + std::to_string(version) + ": allowed is " +
                       std::to_string(kVersion));
  MetricTotals totals;
  totals.samples = reader.get<std::uint64_t>();
  totals.not_finite = reader.get<std::uint64_t>();
  totals.loss_sum = reader.get<double>();
  totals.loss_weight = reader.get<double>();
  for (auto n = reader.count(8); n > 0; --n) totals.sums.push_back(reader.get<double>());
  read_answers(reader, totals.answers);
  const bool valid = read_boxes(reader, totals.boxes);
  for (auto n = reader.count(8); n > 0; --n)
    totals.box_counts.push_back(reader.get<std::uint64_t>());
  if (totals.not_finite > 0 &&
      totals != MetricTotals{.samples = totals.samples, .not_finite = totals.not_finite})
    return usage_error("metric totals: not_finite = " + std::to_string(totals.not_finite) +
                       ": allowed is 0 beside figures");
  if (!valid) return usage_error("metric totals: a box has a label or mark that no encoding has");
  if (!reader.complete())
    return usage_error("metric totals: length = " + std::to_string(bytes.size()) +
                       " bytes: allowed is what its lists say");
  return totals;
}

}  // namespace es::store

#include "tests/gpu/canonical/kernel_testing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace es::gpu::testing {

GuardedBytes::GuardedBytes(GuardedBytes&& other) noexcept
    : map_(other.map_), map_size_(other.map_size_), data_(other.data_), size_(other.size_) {
  other.map_ = nullptr;
}

Floats::Floats(std::int64_t n)
    : Floats(n, [] { return std::numeric_limits<float>::quiet_NaN(); }) {}

Floats::Floats(std::int64_t n, const std::function<float()>& fill)
    : bytes_(static_cast<std::size_t>(n) * sizeof(float)), size_(n) {
  for (std::int64_t i = 0; i < n; ++i) data()[i] = fill();
}

std::int64_t Floats::first_difference(const Floats& other) const {
  if (size_ != other.size_) return 0;
  for (std::int64_t i = 0; i < size_; ++i) {
    if (std::memcmp(data() + i, other.data() + i, sizeof(float)) != 0) return i;
  }
  return -1;
}

Floats workspace(std::size_t floats) {
  return Floats(static_cast<std::int64_t>((floats + 15) / 16 * 16));
}

std::int64_t Random::integer(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
}

float Random::normal() {
  return std::normal_distribution<float>()(engine_);
}

Floats Random::normals(std::int64_t n) {
  return Floats(n, [this] { return normal(); });
}

std::vector<std::int32_t> Random::labels(std::int64_t n, std::int64_t classes) {
  std::vector<std::int32_t> result(static_cast<std::size_t>(n));
  for (auto& label : result) label = static_cast<std::int32_t>(integer(0, classes - 1));
  return result;
}

void TestWorkers::share(std::int64_t count, std::int64_t,
                        const std::function<void(std::int64_t, std::int64_t)>& task) const {
  std::vector<std::int64_t> bounds = {0, count};
  for (int i = 1; i < threads_; ++i) bounds.push_back(random_->integer(0, count));
  std::sort(bounds.begin(), bounds.end());
  std::vector<std::size_t> order(bounds.size() - 1);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (random_ != nullptr) random_->shuffle(order);
  for (const std::size_t i : order)
    if (bounds[i] < bounds[i + 1]) task(bounds[i], bounds[i + 1]);
}

const KernelTable& reference() {
  return kernel_table(CpuClass::kScalar);
}

const std::vector<const KernelTable*>& vector_classes() {
  static const std::vector<const KernelTable*> tables = [] {
    std::vector<const KernelTable*> result;
    for (const CpuClass c : {CpuClass::kAvx2, CpuClass::kAvx512}) {
      if (cpu_supports(c)) {
        result.push_back(&kernel_table(c));
      } else {
        std::printf("skipped: this machine cannot execute %s\n", device_type(c).name.c_str());
      }
    }
    return result;
  }();
  return tables;
}

namespace {

void check_same(const std::vector<Floats>& actual, const std::vector<Floats>& expected,
                const std::string& what) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::int64_t at = actual[i].first_difference(expected[i]);
    CHECK_MESSAGE(at == -1, what, ", output ", i, " differs from the scalar class at element ", at);
  }
}

std::string class_name(const KernelTable& table) {
  return device_type(table.cpu_class).name;
}

}  // namespace

std::vector<Floats> same_in_all_classes(
    const std::string& what, const std::function<std::vector<Floats>(const KernelTable&)>& run) {
  std::vector<Floats> expected = run(reference());
  for (const KernelTable* table : vector_classes())
    check_same(run(*table), expected, class_name(*table) + ": " + what);
  return expected;
}

std::vector<Floats> same_however_shared(
    const std::string& what, Random& random,
    const std::function<std::vector<Floats>(const KernelTable&, const TestWorkers&)>& run) {
  std::vector<Floats> expected = same_in_all_classes(
      what, [&](const KernelTable& table) { return run(table, TestWorkers()); });
  std::vector<const KernelTable*> tables = vector_classes();
  tables.push_back(&reference());
  for (const KernelTable* table : tables) {
    for (int i = 0; i < 3; ++i) {
      const TestWorkers workers(random);
      check_same(
          run(*table, workers), expected,
          class_name(*table) + ", " + std::to_string(workers.threads()) + " threads: " + what);
    }
  }
  return expected;
}

double Dot::bound() const {
  const double roundings = std::min<double>(depth, 512) + depth / 512.0 + 3;
  return magnitude * roundings * 0x1p-24;
}

void check_near(float actual, double expected, double bound, const std::string& what) {
  // The condition is written so that a NaN fails.
  const bool near = std::abs(actual - expected) <= bound;
  CHECK_MESSAGE(near, what, ": ", actual, " should be ", expected, " within ", bound);
}

std::string text(const ConvShape& s) {
  std::string result = "conv";
  for (const auto& [name, value] : {std::pair{"n", s.n},
                                    {"h", s.h},
                                    {"w", s.w},
                                    {"c", s.c},
                                    {"oc", s.oc},
                                    {"kh", s.kh},
                                    {"kw", s.kw},
                                    {"stride", s.stride},
                                    {"pad", s.pad},
                                    {"groups", s.groups}}) {
    result += std::string(" ") + name + "=" + std::to_string(value);
  }
  return result;
}

}  // namespace es::gpu::testing

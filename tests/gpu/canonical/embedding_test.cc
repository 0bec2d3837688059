#include <algorithm>
#include <cstring>

#include "gpu/canonical/phases.h"
#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

std::vector<Floats> backward(const KernelTable& t, std::int64_t c, std::int64_t rows,
                             const std::vector<std::int32_t>& ids, const Floats& dy,
                             const TestWorkers& workers = TestWorkers(),
                             const Floats* before = nullptr) {
  const auto count = static_cast<std::int64_t>(ids.size());
  std::vector<Floats> out;
  const Floats ws = workspace(t.embedding_bwd_workspace_floats(count, rows));
  const Floats& to = out.emplace_back(rows * c);
  // What is known already may have the memory of the result.
  if (before != nullptr) std::copy_n(before->data(), before->size(), to.data());
  embedding_bwd(t, count, c, rows, ids.data(), dy, before == nullptr ? nullptr : to.data(), to, ws,
                workers);
  return out;
}

TEST_SUITE("gpu/canonical/embedding") {
  TEST_CASE("forward copies rows") {
    Random random(test::seed("embedding"));
    for (const std::int64_t c : {1, 8, 33, 100}) {
      const Floats table = random.normals(19 * c);
      const auto ids = random.labels(50, 19);
      const auto out = same_in_all_classes("c=" + std::to_string(c), [&](const KernelTable& t) {
        std::vector<Floats> y;
        t.embedding_fwd(50, c, table, ids.data(), y.emplace_back(50 * c));
        return y;
      });
      for (std::int64_t i = 0; i < 50; ++i) {
        CHECK(std::memcmp(out[0] + i * c, table + ids[i] * c, c * sizeof(float)) == 0);
      }
    }
  }

  TEST_CASE(
      "the gradient of a row is the sum over the positions that read it, with any division of "
      "work") {
    Random random(test::seed("embedding gradient"));
    for (int trial = 0; trial < 60; ++trial) {
      const std::int64_t c = random.integer(1, random.coin() ? 80 : 400);
      const std::int64_t rows = random.integer(1, 200);
      const std::int64_t count = random.integer(1, 3000);
      const Floats dy = random.normals(count * c);
      const auto ids = random.labels(count, random.integer(1, rows));
      const auto out =
          same_however_shared("c=" + std::to_string(c) + " rows=" + std::to_string(rows), random,
                              [&](const KernelTable& t, const TestWorkers& workers) {
                                return backward(t, c, rows, ids, dy, workers);
                              });
      std::vector<Dot> sums(static_cast<std::size_t>(rows * c));
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t j = 0; j < c; ++j) sums[ids[i] * c + j].step(dy[i * c + j], 1);
      }
      for (std::int64_t i = 0; i < rows * c; ++i) {
        check_near(out[0][i], sums[i].sum, sums[i].bound(), "dtable");
      }
    }
  }

  TEST_CASE("a sum that is known already is the left operand of one addition") {
    Random random(test::seed("embedding before"));
    for (int trial = 0; trial < 20; ++trial) {
      const std::int64_t c = random.integer(1, 200), rows = random.integer(1, 100);
      const std::int64_t count = random.integer(1, 2000);
      const Floats dy = random.normals(count * c);
      const Floats before = random.normals(rows * c);
      before[0] = -0.0F;  // -0 + (+0) is +0
      const auto ids = random.labels(count, random.integer(1, rows));
      const auto found = same_however_shared(
          "c=" + std::to_string(c), random, [&](const KernelTable& t, const TestWorkers& workers) {
            return backward(t, c, rows, ids, dy, workers, &before);
          });
      const std::vector<Floats> expected = backward(reference(), c, rows, ids, dy);
      for (std::int64_t i = 0; i < rows * c; ++i) expected[0][i] = before[i] + expected[0][i];
      CHECK(found[0].first_difference(expected[0]) == -1);
    }
  }

  TEST_CASE("positions are added in order, in chunks of 512") {
    // 2^24 absorbs a 1 that is added to it. The next chunk begins at zero.
    const std::vector<std::int32_t> ids(514, 0);
    std::int64_t i = 0;
    const Floats dy(514, [&] { return i++ == 0 ? 0x1p24f : 1.0f; });
    const auto out = same_in_all_classes(
        "order", [&](const KernelTable& t) { return backward(t, 1, 2, ids, dy); });
    CHECK(out[0][0] == 0x1p24f + 2.0f);
    CHECK(out[0][1] == 0.0f);
  }
}

}  // namespace
}  // namespace es::gpu::testing

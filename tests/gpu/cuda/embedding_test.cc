#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

void check_embedding(Random& random, std::int64_t count, std::int64_t c, std::int64_t rows,
                     const Numbers<std::int32_t>& ids) {
  const Floats table = mixed(random, rows * c), dy = mixed(random, count * c);
  auto out = outputs({count * c, rows * c, rows * c});
  auto on_device = outputs({count * c, rows * c, rows * c});
  const Floats before = mixed(random, rows * c);
  reference().embedding_fwd(count, c, table, ids.data(), out[0]);
  const Floats ws = workspace(reference().embedding_bwd_workspace_floats(count, rows));
  embedding_bwd(reference(), count, c, rows, ids.data(), dy, nullptr, out[1], ws, Alone());
  embedding_bwd(reference(), count, c, rows, ids.data(), dy, before, out[2], ws, Alone());
  device().embedding_fwd(kStream, count, c, table, ids.data(), on_device[0]);
  const Floats device_ws = workspace(device().embedding_bwd_workspace_floats(count, rows));
  device().embedding_bwd(kStream, count, c, rows, ids.data(), dy, nullptr, on_device[1], device_ws);
  device().embedding_bwd(kStream, count, c, rows, ids.data(), dy, before, on_device[2], device_ws);
  check_same(shaped("embedding", count, c) + " of " + std::to_string(rows) + " rows", out,
             on_device);
}

TEST_SUITE("gpu/cuda/embedding") {
  TEST_CASE("embedding has the bits of the scalar class, forwards and backwards") {
    Random random(test::seed("device embedding"));
    for (int trial = 0; trial < 40; ++trial) {
      const std::int64_t c = random.coin() ? 4 * random.integer(1, 20) : random.integer(1, 70);
      const std::int64_t rows = random.integer(1, 200), count = random.integer(1, 1500);
      check_embedding(random, count, c, rows, labels(random, count, random.integer(1, rows)));
    }
  }

  TEST_CASE("rows that are read 512 times and more, and any number of chunks, keep their order") {
    Random random(test::seed("device embedding chunks"));
    for (const std::int64_t often : {511, 512, 513, 1024, 1025, 8192, 8193, 9000}) {
      const std::int64_t rows = 5, rare = 300;
      Numbers<std::int32_t> ids = labels(random, rare, rows);
      ids.insert(ids.end(), static_cast<std::size_t>(often), 3);
      for (std::int64_t i = 0; i < rare; ++i) {  // Among the other rows.
        std::swap(ids[i], ids[random.integer(0, std::ssize(ids) - 1)]);
      }
      check_embedding(random, rare + often, random.integer(1, 40), rows, ids);
    }
  }

  TEST_CASE("a table of 30,000 rows of which few are read") {
    Random random(test::seed("device embedding table"));
    check_embedding(random, 700, 8, 30522, labels(random, 700, 30522));
  }
}

}  // namespace
}  // namespace es::gpu::testing

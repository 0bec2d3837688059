// Tensors with 5 to 8 dimensions: moves and element-wise operators on a CPU and on the host device,
// against plain definitions.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "gpu/cuda/device_executor.h"
#include "gpu/graph/builder.h"
#include "gpu/graph/fuse.h"
#include "proto/base/check.h"
#include "tests/gpu/support/reference_fp64.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/cuda/any_rank") {
  using namespace es::gpu;
  using Values = std::vector<float>;
  using Index = std::vector<std::int64_t>;
  // The word of the input that an output word is; -1: it is +0.
  using OriginOf = std::function<std::int64_t(const Index&)>;

  struct Drawer {
    std::mt19937_64 random;
    std::int64_t upto(std::int64_t n) { return static_cast<std::int64_t>(random() % n) + 1; }
    int below(int n) { return static_cast<int>(random() % n); }
    TensorShape shape(int rank) {
      TensorShape s;
      for (int axis = 0; axis < rank; ++axis) s.append(upto(3));
      return s;
    }
    std::vector<int> order(int rank) {
      std::vector<int> axes(static_cast<std::size_t>(rank));
      std::iota(axes.begin(), axes.end(), 0);
      std::shuffle(axes.begin(), axes.end(), random);
      return axes;
    }
  };

  std::int64_t word(const TensorShape& s, const Index& index) {
    std::int64_t at = 0;
    for (int axis = 0; axis < s.rank(); ++axis) at = at * s[axis] + index[axis];
    return at;
  }

  Index index_of(const TensorShape& s, std::int64_t word) {
    Index index(static_cast<std::size_t>(s.rank()));
    for (int axis = s.rank(); axis-- > 0; word /= s[axis]) index[axis] = word % s[axis];
    return index;
  }

  Values numbered(std::int64_t count) {
    Values values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 1.0F);
    return values;
  }

  Values by_definition(const TensorShape& x, const TensorShape& y, const OriginOf& origin) {
    const Values from = numbered(x.count());
    Values to(static_cast<std::size_t>(y.count()));
    for (std::int64_t i = 0; i < y.count(); ++i) {
      const std::int64_t at = origin(index_of(y, i));
      to[i] = at < 0 ? 0.0F : from[at];
    }
    return to;
  }

  // A move of one tensor, on a CPU in one part and in several, and on the host device.
  void check(const Move& move, const TensorShape& x, const TensorShape& y, const OriginOf& origin) {
    INFO(shape_text(x), " -> ", shape_text(y));
    const Values expected = by_definition(x, y, origin);
    Values from = numbered(x.count());
    float* const sources[] = {from.data()};
    for (const std::int64_t parts : {1, 3}) {
      Values to(expected.size());
      float* const targets[] = {to.data()};
      for (std::int64_t part = 0; part < parts; ++part)
        run_move(move, sources, targets, part, parts);
      CHECK(to == expected);
    }
    Values on_device(expected.size());
    for (const BlockCopy& copy : move)
      cuda::host_kernels().block_copy({}, copy, from.data(), on_device.data());
    CHECK(on_device == expected);
  }

  void check_moves(Drawer & draw, int rank) {
    const TensorShape x = draw.shape(rank);
    const int axis = draw.below(rank);
    const std::vector<int> order = draw.order(rank);
    check(permute_move(x, order), x, permuted_shape(x, order), [&](const Index& i) {
      Index from(i.size());
      for (int a = 0; a < rank; ++a) from[order[a]] = i[a];
      return word(x, from);
    });
    const std::int64_t begin = draw.upto(x[axis]) - 1, count = draw.upto(x[axis] - begin);
    check(slice_move(x, axis, begin, count), x, with_extent(x, axis, count), [&](Index i) {
      i[axis] += begin;
      return word(x, i);
    });
    const std::int64_t before = draw.upto(3) - 1, after = draw.upto(3) - 1;
    check(pad_move(x, axis, before, after), x, with_extent(x, axis, before + x[axis] + after),
          [&](Index i) {
            i[axis] -= before;
            return i[axis] < 0 || i[axis] >= x[axis] ? -1 : word(x, i);
          });
    const std::int64_t shift = draw.upto(x[axis]) - 1;
    check(roll_move(x, axis, shift), x, x, [&](Index i) {
      i[axis] = (i[axis] - shift + x[axis]) % x[axis];
      return word(x, i);
    });
  }

  // A tensor of which some dimensions are repeated: the copy reads them with stride 0.
  void check_broadcast(Drawer & draw, int rank) {
    const TensorShape y = draw.shape(rank);
    TensorShape x = y;
    for (int axis = 0; axis < rank; ++axis) x[axis] = draw.below(2) == 0 ? 1 : y[axis];
    BlockCopy copy;
    for (int axis = 0; axis < rank; ++axis) {
      const std::size_t d = kMoveRank - static_cast<std::size_t>(rank - axis);
      copy.size[d] = y[axis];
      copy.source_stride[d] = x[axis] == 1 ? 0 : x.count(axis + 1, rank);
      copy.target_stride[d] = y.count(axis + 1, rank);
    }
    check({simplified(copy)}, x, y, [&](Index i) {
      for (int axis = 0; axis < rank; ++axis) i[axis] = x[axis] == 1 ? 0 : i[axis];
      return word(x, i);
    });
  }

  TEST_CASE("moves of tensors with 5 to 8 dimensions are what their definitions say") {
    Drawer draw{std::mt19937_64(es::test::seed("ranks"))};
    for (int trial = 0; trial < 40; ++trial) {
      check_moves(draw, 5 + trial % 4);
      check_broadcast(draw, 5 + trial % 4);
    }
  }

  // Random element-wise operators and moves. The rank stays, and the first dimension is that of the
  // batch.
  TensorId random_layers(Drawer & draw, GraphBuilder & b, TensorId x) {
    const int rank = b.shape(x).rank();
    for (int layer = 0; layer < 5; ++layer) {
      const std::string name = "layer" + std::to_string(layer);
      const int axis = 1 + draw.below(rank - 1);
      switch (draw.below(6)) {
        case 0:
          x = b.gelu(name, x);
          break;
        case 1:
          x = b.mul(name, x, b.roll(name + ".roll", x, axis, 1));
          break;
        case 2: {
          std::vector<int> order = draw.order(rank - 1);
          for (int& a : order) ++a;
          order.insert(order.begin(), 0);
          x = b.permute(name, x, order);
          break;
        }
        case 3:
          x = b.pad(name, x, axis, 1, 0);
          break;
        case 4:
          x = b.concat(name, {x, b.tanh(name + ".tanh", x)}, axis);
          break;
        default:
          x = b.slice(name, x, axis, b.shape(x)[axis] - 1, 1);
      }
    }
    return x;
  }

  Graph random_network(Drawer & draw, int rank) {
    TensorShape shape = draw.shape(rank);
    shape[0] = 2;
    const std::int64_t words = shape.count(1, rank);
    GraphBuilder b("ranks", 2, {{{"row", es::FieldType::kF32, 1, 1, words}}});
    TensorId x = b.linear("stem", b.input("row"), {.out = words});
    x = b.linear("last", random_layers(draw, b, b.reshape("shape", x, shape)), {.out = 3});
    const std::vector<float> target(static_cast<std::size_t>(b.shape(x).count()), 0.25F);
    b.mse("loss", x, b.constant("target", b.shape(x), target));
    es::Result<Graph> graph = b.finish({x});
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    return *std::move(graph);
  }

  std::vector<std::uint32_t> bits_on_host_device(const Graph& graph, es::test::StepRig& rig) {
    auto device = cuda::DeviceExecutor::create(compile(graph), cuda::open_host_device(),
                                               rig.buckets, nullptr);
    REQUIRE(device.ok());
    const auto result = (*device)->run_local_step(rig.step(), [](std::uint32_t) {});
    REQUIRE(result.ok());
    std::vector<std::uint32_t> bits{std::bit_cast<std::uint32_t>(result->loss)};
    for (std::int64_t i = 0; i < rig.grads.floats(); ++i)
      bits.push_back(std::bit_cast<std::uint32_t>(rig.grads.data()[i]));
    return bits;
  }

  TEST_CASE("networks of tensors with 5 to 8 dimensions have the loss of their definition") {
    const std::uint64_t seed = es::test::seed("rank networks");
    Drawer draw{std::mt19937_64(seed)};
    for (int trial = 0; trial < 24; ++trial) {
      const Graph graph = random_network(draw, 5 + trial % 4);
      es::test::StepRig rig(compile(graph), seed + static_cast<std::uint64_t>(trial));
      const std::vector<double> params(rig.params.data(), rig.params.data() + rig.params.floats());
      const double exact = es::test::reference_loss(graph, params, rig.batch(), rig.key);
      CHECK(std::abs(static_cast<double>(rig.run()) - exact) < 1e-4 * (1.0 + exact));
      const auto bits = rig.step_bits();
      CHECK(bits_on_host_device(graph, rig) == bits);
    }
  }

  TEST_CASE("an operator on images refuses other tensors, and an axis must exist") {
    const auto error_of = [](const std::function<TensorId(GraphBuilder&, TensorId)>& build) {
      GraphBuilder b("net", 2, {{{"row", es::FieldType::kF32, 1, 1, 24}}});
      const TensorId x = b.linear("stem", b.input("row"), {.out = 24});
      const TensorId y = build(b, b.reshape("shape", x, {2, 2, 3, 2, 2}));
      return b.finish({y}).error().message;
    };
    CHECK(error_of([](GraphBuilder& b, TensorId x) { return b.conv2d("conv", x, {.out = 2}); }) ==
          "model net: conv2d \"conv\": its input [2,2,3,2,2] must be an image [n,h,w,c]");
    CHECK(error_of([](GraphBuilder& b, TensorId x) { return b.slice("cut", x, 5, 0, 1); }) ==
          "model net: slice \"cut\": axis 5 is not one of [2,2,3,2,2]");
  }
}

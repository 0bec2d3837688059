#include "gpu/canonical/move.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>

#include "gpu/graph/move_compose.h"
#include "gpu/graph/move_shapes.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/move") {
  using namespace es::gpu;
  using Values = std::vector<float>;
  using Index = std::array<std::int64_t, 4>;
  // The source of output word (n, h, w, c): the number and the index of the input; the number -1
  // means +0.
  struct Origin {
    int input = 0;
    Index at = {};
  };
  using OriginOf = std::function<Origin(const Index&)>;

  struct Drawer {
    std::mt19937_64 random{es::test::seed("move")};
    std::int64_t upto(std::int64_t n) { return static_cast<std::int64_t>(random() % n) + 1; }
    ImageShape shape() { return {upto(3), upto(5), upto(6), upto(40)}; }
    int axis() { return static_cast<int>(random() % 4); }
  };

  std::int64_t word(const ImageShape& s, const Index& i) {
    return ((i[0] * s.h + i[1]) * s.w + i[2]) * s.c + i[3];
  }

  // 1, 2, 3, ... for each input, so that no two words are equal.
  std::vector<Values> numbered(const std::vector<TensorShape>& shapes) {
    std::vector<Values> inputs;
    float next = 1.0F;
    for (const TensorShape& s : shapes) {
      inputs.emplace_back(static_cast<std::size_t>(s.count()));
      for (float& v : inputs.back()) v = next++;
    }
    return inputs;
  }

  std::vector<float*> addresses(std::vector<Values> & arrays) {
    std::vector<float*> out;
    for (Values& a : arrays) out.push_back(a.data());
    return out;
  }

  // Moves in `parts` parts, into arrays of zeros.
  std::vector<Values> moved(const Move& move, std::vector<Values> inputs,
                            const std::vector<TensorShape>& outputs, std::int64_t parts) {
    std::vector<Values> results;
    for (const TensorShape& s : outputs) results.emplace_back(static_cast<std::size_t>(s.count()));
    for (std::int64_t p = 0; p < parts; ++p)
      run_move(move, addresses(inputs), addresses(results), p, parts);
    return results;
  }

  void check(const Move& move, const std::vector<TensorShape>& inputs,
             const std::vector<TensorShape>& outputs, const std::vector<OriginOf>& origins) {
    const std::vector<Values> values = numbered(inputs);
    for (const std::int64_t parts : {1, 3}) {
      const std::vector<Values> results = moved(move, values, outputs, parts);
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        const ImageShape s = image_of(outputs[o]);
        INFO(shape_text(inputs[0]), " -> ", shape_text(s), " in ", parts, " parts");
        std::int64_t wrong = 0;
        for (std::int64_t n = 0; n < s.n; ++n)
          for (std::int64_t h = 0; h < s.h; ++h)
            for (std::int64_t w = 0; w < s.w; ++w)
              for (std::int64_t c = 0; c < s.c; ++c) {
                const Origin from = origins[o]({n, h, w, c});
                const float expected =
                    from.input < 0
                        ? 0.0F
                        : values[from.input][word(image_of(inputs[from.input]), from.at)];
                wrong += results[o][word(s, {n, h, w, c})] != expected;
              }
        CHECK(wrong == 0);
      }
    }
  }

  // The transposed move restores the values that the move took from the only input.
  void check_back(const Move& move, const TensorShape& input,
                  const std::vector<TensorShape>& outputs) {
    const std::vector<Values> values = numbered({input});
    const std::vector<Values> results = moved(move, values, outputs, 1);
    CHECK(moved(transposed(move), results, {input}, 2)[0] == values[0]);
  }

  TEST_CASE("concat and slices") {
    Drawer draw;
    for (int trial = 0; trial < 40; ++trial) {
      const int axis = draw.axis();
      const TensorShape a = draw.shape(), b = with_extent(a, axis, draw.upto(5));
      const std::int64_t left = a[axis], total = left + b[axis];
      const TensorShape both = with_extent(a, axis, total);
      const TensorShape inputs[] = {a, b};
      check(concat_move(inputs, axis), {a, b}, {both}, {[&](Index i) {
              const bool second = i[static_cast<std::size_t>(axis)] >= left;
              if (second) i[static_cast<std::size_t>(axis)] -= left;
              return Origin{second, i};
            }});
      const std::int64_t begin = draw.upto(total) - 1, count = draw.upto(total - begin);
      check(slice_move(both, axis, begin, count), {both}, {with_extent(both, axis, count)},
            {[&](Index i) {
              i[static_cast<std::size_t>(axis)] += begin;
              return Origin{0, i};
            }});
      const std::int64_t before = draw.upto(3) - 1, after = draw.upto(3) - 1;
      check(pad_move(a, axis, before, after), {a}, {with_extent(a, axis, before + left + after)},
            {[&](Index i) {
              i[static_cast<std::size_t>(axis)] -= before;
              const bool inside = i[static_cast<std::size_t>(axis)] >= 0 &&
                                  i[static_cast<std::size_t>(axis)] < left;
              return inside ? Origin{0, i} : Origin{-1, {}};
            }});
    }
  }

  TEST_CASE("split") {
    Drawer draw;
    for (int trial = 0; trial < 20; ++trial) {
      const int axis = draw.axis();
      const TensorShape part = draw.shape();
      const std::int64_t size = part[axis];
      const TensorShape input = with_extent(part, axis, 3 * size);
      std::vector<OriginOf> origins;
      for (std::int64_t p = 0; p < 3; ++p)
        origins.push_back([=](Index i) {
          i[static_cast<std::size_t>(axis)] += p * size;
          return Origin{0, i};
        });
      const Move move = split_move(input, axis, 3);
      check(move, {input}, {part, part, part}, origins);
      check_back(move, input, {part, part, part});
    }
  }

  TEST_CASE("permute and roll") {
    Drawer draw;
    std::vector<int> order = {Axis::kN, Axis::kH, Axis::kW, Axis::kC};
    do {
      const TensorShape input = draw.shape();
      const TensorShape output = permuted_shape(input, order);
      const Move move = permute_move(input, order);
      check(move, {input}, {output}, {[&](const Index& i) {
              Index from = {};
              for (std::size_t d = 0; d < 4; ++d) from[static_cast<std::size_t>(order[d])] = i[d];
              return Origin{0, from};
            }});
      check_back(move, input, {output});
      const int axis = draw.axis();
      const std::int64_t size = input[axis], shift = draw.upto(size) - 1;
      check(roll_move(input, axis, shift), {input}, {input}, {[&](Index i) {
              i[static_cast<std::size_t>(axis)] =
                  (i[static_cast<std::size_t>(axis)] - shift + size) % size;
              return Origin{0, i};
            }});
      check_back(roll_move(input, axis, shift), input, {input});
    } while (std::next_permutation(order.begin(), order.end()));
  }

  TEST_CASE("transposed matrices, also with columns that share cache sets") {
    Drawer draw;
    std::vector<ImageShape> inputs = {
        {1, 1, 1024, 37}, {1, 1, 37, 1024}, {1, 1, 2048, 16}, {2, 3, 16, 16}};
    for (int trial = 0; trial < 20; ++trial)
      inputs.push_back({draw.upto(2), draw.upto(2), draw.upto(70), draw.upto(70)});
    const std::array<int, 4> order = {0, 1, 3, 2};
    for (const TensorShape input : inputs) {
      const TensorShape output = permuted_shape(input, order);
      const Move move = permute_move(input, order);
      check(move, {input}, {output}, {[](const Index& i) {
              return Origin{0, {i[0], i[1], i[3], i[2]}};
            }});
      check_back(move, input, {output});
    }
  }

  TEST_CASE("windows and upsampling") {
    Drawer draw;
    for (int trial = 0; trial < 20; ++trial) {
      const std::int64_t side = draw.upto(4), across = draw.upto(3);
      const ImageShape image{draw.upto(3), side * draw.upto(3), side * across, draw.upto(20)};
      const Move move = window_partition_move(image, side);
      check(move, {image}, {window_shape(image, side)}, {[&](const Index& i) {
              const std::int64_t window = i[0] % (image.h / side * across);
              return Origin{0,
                            {i[0] / (image.h / side * across), window / across * side + i[1] / side,
                             window % across * side + i[1] % side, i[3]}};
            }});
      check_back(move, image, {window_shape(image, side)});
      check(upsample2_move(image), {image}, {{image.n, 2 * image.h, 2 * image.w, image.c}},
            {[](const Index& i) {
              return Origin{0, {i[0], i[1] / 2, i[2] / 2, i[3]}};
            }});
    }
  }

  TEST_CASE("channel shuffles") {
    Drawer draw;
    for (int trial = 0; trial < 20; ++trial) {
      ImageShape s = draw.shape();
      const std::int64_t groups = draw.upto(4), size = s.c;
      // The composition of a concat, a shuffle by two and a split.
      std::vector<OriginOf> halves;
      for (std::int64_t half = 0; half < 2; ++half)
        halves.push_back([=](Index i) {
          const std::int64_t channel = half * size + i[3];
          i[3] = channel / 2;
          return Origin{static_cast<int>(channel % 2), i};
        });
      check(concat_shuffle_split_move(s), {s, s}, {s, s}, halves);
      s.c *= groups;
      check(channel_shuffle_move(s, groups), {s}, {s}, {[&](Index i) {
              i[3] = i[3] % groups * size + i[3] / groups;
              return Origin{0, i};
            }});
    }
  }

  TEST_CASE("a simplified copy has no dimensions that could be merged") {
    const ImageShape image{2, 4, 6, 8};
    const BlockCopy rows = slice_move(image, Axis::kH, 1, 2)[0];
    CHECK(rows.size == std::array<std::int64_t, kMoveRank>{1, 1, 1, 1, 1, 1, 2, 2 * 6 * 8});
    const BlockCopy all = slice_move(image, Axis::kC, 0, 8)[0];
    CHECK(all.size == std::array<std::int64_t, kMoveRank>{1, 1, 1, 1, 1, 1, 1, 2 * 4 * 6 * 8});
  }

  // A random move of one tensor, and the shape of its output.
  std::pair<Move, TensorShape> random_move(Drawer & draw, const TensorShape& x) {
    const ImageShape image = image_of(x);
    const int axis = draw.axis();
    const std::int64_t size = x[axis];
    switch (draw.random() % 6) {
      case 0: {
        const std::int64_t before = draw.upto(3) - 1, after = draw.upto(3) - 1;
        return {pad_move(x, axis, before, after), with_extent(x, axis, before + size + after)};
      }
      case 1: {
        const std::int64_t begin = draw.upto(size) - 1, count = draw.upto(size - begin);
        return {slice_move(x, axis, begin, count), with_extent(x, axis, count)};
      }
      case 2:
        return {roll_move(x, axis, draw.upto(size) - 1), x};
      case 3: {
        std::vector<int> order = {Axis::kN, Axis::kH, Axis::kW, Axis::kC};
        std::shuffle(order.begin() + draw.random() % 2, order.end(), draw.random);
        return {permute_move(x, order), permuted_shape(x, order)};
      }
      case 4:
        return {upsample2_move(image), {image.n, 2 * image.h, 2 * image.w, image.c}};
      default: {
        const std::int64_t side = image.h % 2 == 0 && image.w % 2 == 0 ? 2 : 1;
        return {window_partition_move(image, side), window_shape(image, side)};
      }
    }
  }

  TEST_CASE("a composed move does the same as the two moves") {
    Drawer draw;
    int composed_moves = 0;
    for (int trial = 0; trial < 300; ++trial) {
      const TensorShape x = draw.shape();
      const auto [first, between] = random_move(draw, x);
      const auto [second, y] = random_move(draw, between);
      const std::int64_t inputs[] = {x.count()}, middle[] = {between.count()};
      const std::int64_t outputs[] = {y.count()};
      for (const std::int64_t images : {std::int64_t{1}, x.front()}) {
        const std::optional<Move> both = composed(first, second, 0,
                                                  {.images = images,
                                                   .between = between.count(),
                                                   .first_inputs = inputs,
                                                   .second_inputs = middle,
                                                   .second_outputs = outputs});
        if (!both) continue;
        ++composed_moves;
        const std::vector<Values> values = numbered({x});
        const Values expected = moved(second, moved(first, values, {between}, 1), {y}, 1)[0];
        INFO(shape_text(x), " -> ", shape_text(between), " -> ", shape_text(y), ", ", images);
        CHECK(moved(*both, values, {y}, 3)[0] == expected);
      }
    }
    CHECK(composed_moves > 200);
  }

  TEST_CASE("windows of a padded and rolled image need few copies, for any batch size") {
    const ImageShape image{4, 16, 16, 96}, padded{4, 21, 21, 96};
    Move move = pad_move(image, Axis::kH, 0, 5);
    TensorShape shape = with_extent(image, Axis::kH, 21);
    const auto append = [&](const Move& next, const TensorShape& y) {
      const std::int64_t inputs[] = {image.count()}, middle[] = {shape.count()};
      const std::int64_t outputs[] = {y.count()};
      const std::optional<Move> both = composed(move, next, 0,
                                                {.images = 4,
                                                 .between = shape.count(),
                                                 .first_inputs = inputs,
                                                 .second_inputs = middle,
                                                 .second_outputs = outputs});
      REQUIRE(both.has_value());
      move = *both;
      shape = y;
    };
    append(pad_move(shape, Axis::kW, 0, 5), padded);
    append(roll_move(padded, Axis::kH, 18), padded);
    append(roll_move(padded, Axis::kW, 18), padded);
    append(window_partition_move(padded, 7), window_shape(padded, 7));
    CHECK(move.size() <= 20);
  }
}

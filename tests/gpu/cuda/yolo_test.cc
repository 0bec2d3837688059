#include "tests/gpu/cuda/device_testing.h"

namespace es::gpu::testing {
namespace {

// Three small grids with anchors of three sizes.
YoloShape random_shape(Random& random) {
  YoloShape s{.batch = random.integer(1, 3), .classes = random.integer(1, 90)};
  s.boxes = random.integer(0, 12);
  s.image_h = 64;
  s.image_w = 96;
  const std::int64_t h = random.integer(1, 3), w = random.integer(1, 4);
  for (int scale = 0; scale < 3; ++scale) {
    s.h[scale] = h << scale;
    s.w[scale] = w << scale;
    for (int a = 0; a < 3; ++a) {
      s.anchor_w[scale][a] = static_cast<float>((48 >> scale) + 5 * a);
      s.anchor_h[scale][a] = static_cast<float>((40 >> scale) + 7 * (2 - a));
    }
  }
  return s;
}

std::int64_t floats(const YoloShape& s, int scale) {
  return s.batch * s.h[scale] * s.w[scale] * 3 * (5 + s.classes);
}

// Some are no boxes, some have a class beyond the last one, and some have the same position.
Floats random_boxes(Random& random, const YoloShape& s) {
  Floats boxes(s.batch * s.boxes * 5);
  for (std::int64_t i = 0; i < s.batch * s.boxes; ++i) {
    float* const box = boxes + 5 * i;
    box[0] = static_cast<float>(random.integer(-1, s.classes));
    const std::int64_t fine = random.coin() ? 1000 : 4;
    for (int j = 1; j < 5; ++j) {
      box[j] = static_cast<float>(random.integer(j > 2 ? 1 : 0, fine)) /
               static_cast<float>(j > 2 ? 2 * fine : fine);
    }
  }
  return boxes;
}

struct Case {
  Case(Random& random, const YoloShape& shape) : s(shape), boxes(random_boxes(random, s)) {
    for (int scale = 0; scale < 3; ++scale) {
      raw.push_back(Floats(floats(s, scale), [&] { return 0.7f * random.normal(); }));
    }
  }
  // Gradients of the three scales, image losses, mean loss.
  template <class Loss>
  std::vector<Floats> run(std::size_t ws_floats, Loss&& loss) const {
    auto out = outputs({floats(s, 0), floats(s, 1), floats(s, 2), s.batch, 1});
    const float* const from[3] = {raw[0], raw[1], raw[2]};
    float* const gradients[3] = {out[0], out[1], out[2]};
    loss(from, gradients, out[3], out[4], workspace(ws_floats));
    return out;
  }

  YoloShape s;
  Floats boxes;
  std::vector<Floats> raw;
};

void check_case(const Case& c) {
  const auto out = c.run(reference().yolo_loss_workspace_floats(c.s),
                         [&](auto from, auto gradients, float* image, float* mean, float* ws) {
                           reference().yolo_loss(c.s, from, c.boxes, gradients, image, mean, ws);
                         });
  const auto on_device =
      c.run(device().yolo_loss_workspace_floats(c.s),
            [&](auto from, auto gradients, float* image, float* mean, float* ws) {
              device().yolo_loss(kStream, c.s, from, c.boxes, gradients, image, mean, ws);
            });
  check_same(shaped("yolo", c.s.batch, c.s.boxes), out, on_device);
}

TEST_SUITE("gpu/cuda/yolo") {
  TEST_CASE("the loss and its gradients have the bits of the scalar class") {
    Random random(test::seed("device yolo"));
    for (int trial = 0; trial < 40; ++trial) check_case(Case(random, random_shape(random)));
  }

  TEST_CASE("an image with more positions than a chunk of a sum") {
    Random random(test::seed("device yolo large"));
    YoloShape s = random_shape(random);
    s.batch = 1;
    s.classes = 2;
    for (int scale = 0; scale < 3; ++scale) s.h[scale] = s.w[scale] = 17 << scale;
    check_case(Case(random, s));
  }

  TEST_CASE("outputs that are not finite are in the same elements as with the scalar class") {
    Random random(test::seed("device yolo special"));
    for (int trial = 0; trial < 20; ++trial) {
      Case c(random, random_shape(random));
      for (const Floats& raw : c.raw) {
        raw[random.integer(0, raw.size() - 1)] = random.coin() ? NAN : -INFINITY;
      }
      check_case(c);
    }
  }
}

}  // namespace
}  // namespace es::gpu::testing

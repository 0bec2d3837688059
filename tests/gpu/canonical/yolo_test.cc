#include <array>
#include <cmath>
#include <cstring>

#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

// Three small grids with anchors of three sizes.
YoloShape shape(std::int64_t batch, std::int64_t classes, std::int64_t boxes) {
  YoloShape s{.batch = batch, .classes = classes, .boxes = boxes, .image_h = 64, .image_w = 96};
  for (int scale = 0; scale < 3; ++scale) {
    s.h[scale] = 2 << scale;
    s.w[scale] = 3 << scale;
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

struct Case {
  Case(Random& random, const YoloShape& shape) : s(shape), boxes(s.batch * s.boxes * 5) {
    for (int scale = 0; scale < 3; ++scale) {
      outputs.push_back(Floats(floats(s, scale), [&] { return 0.7f * random.normal(); }));
    }
    for (std::int64_t i = 0; i < s.batch * s.boxes; ++i) {
      float* box = boxes + 5 * i;
      box[0] = static_cast<float>(random.integer(-1, s.classes - 1));
      for (int j = 1; j < 5; ++j) {
        box[j] = static_cast<float>(random.integer(1, 1000)) * (j > 2 ? 6e-4f : 1e-3f);
      }
    }
  }

  // Gradients of the three scales, image losses, mean loss.
  std::vector<Floats> run(const KernelTable& t) const {
    std::vector<Floats> out;
    for (int scale = 0; scale < 3; ++scale) out.emplace_back(floats(s, scale));
    out.emplace_back(s.batch);
    out.emplace_back(1);
    const Floats ws = workspace(t.yolo_loss_workspace_floats(s));
    const float* const raw[3] = {outputs[0], outputs[1], outputs[2]};
    float* const gradients[3] = {out[0], out[1], out[2]};
    t.yolo_loss(s, raw, boxes, gradients, out[3], out[4], ws);
    return out;
  }

  YoloShape s;
  std::vector<Floats> outputs;
  Floats boxes;
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double bce(double x, double t) {
  return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x)));
}

struct Box {
  double x, y, w, h;
};

double overlap(const Box& a, const Box& b) {
  const double w = std::min(a.x + a.w / 2, b.x + b.w / 2) - std::max(a.x - a.w / 2, b.x - b.w / 2);
  const double h = std::min(a.y + a.h / 2, b.y + b.h / 2) - std::max(a.y - a.h / 2, b.y - b.h / 2);
  const double common = std::max(w, 0.0) * std::max(h, 0.0);
  return common / (a.w * a.h + b.w * b.h - common);
}

// The loss of one image in double precision, written from the rules of the paper and independently
// of the kernels. The targets of a position are determined once from the outputs (`decide`) and
// stay fixed while finite differences change the outputs.
class Oracle {
 public:
  struct Position {
    bool ignored = false;
    const float* box = nullptr;
    double x = 0, y = 0, w = 0, h = 0;
  };

  Oracle(const Case& c, std::int64_t image) : c_(c), image_(image) {
    for (int scale = 0; scale < 3; ++scale) decide(scale);
    for (std::int64_t m = 0; m < c.s.boxes; ++m) assign(c.boxes + (image * c.s.boxes + m) * 5);
  }

  const Position& position(int scale, std::int64_t i) const { return positions_[scale][i]; }

  // The terms of one position under `output`.
  double loss(int scale, std::int64_t i, const float* output) const {
    const Position& p = positions_[scale][i];
    if (p.box == nullptr) return p.ignored ? 0 : bce(output[4], 0);
    const double weight = 2 - static_cast<double>(p.box[3]) * p.box[4];
    double sum = bce(output[4], 1);
    sum += weight * (bce(output[0], p.x) + bce(output[1], p.y));
    sum += weight * (std::pow(output[2] - p.w, 2) + std::pow(output[3] - p.h, 2));
    for (std::int64_t k = 0; k < c_.s.classes; ++k)
      sum += bce(output[5 + k], k == p.box[0] ? 1 : 0);
    return sum;
  }

  float* output(int scale, std::int64_t i) const {
    const std::int64_t count = c_.s.h[scale] * c_.s.w[scale] * 3;
    return c_.outputs[scale] + (image_ * count + i) * (5 + c_.s.classes);
  }

 private:
  void decide(int scale) {
    const YoloShape& s = c_.s;
    positions_[scale].resize(s.h[scale] * s.w[scale] * 3);
    for (std::size_t i = 0; i < positions_[scale].size(); ++i) {
      const float* o = output(scale, i);
      const std::int64_t cell = i / 3, a = i % 3;
      const Box mine{(sigmoid(o[0]) + cell % s.w[scale]) / s.w[scale],
                     (sigmoid(o[1]) + cell / s.w[scale]) / s.h[scale],
                     std::exp(o[2]) * s.anchor_w[scale][a] / s.image_w,
                     std::exp(o[3]) * s.anchor_h[scale][a] / s.image_h};
      for (std::int64_t m = 0; m < s.boxes; ++m) {
        const float* b = c_.boxes + (image_ * s.boxes + m) * 5;
        if (b[0] >= 0 && overlap(mine, {b[1], b[2], b[3], b[4]}) > 0.5) {
          positions_[scale][i].ignored = true;
        }
      }
    }
  }

  void assign(const float* box) {
    if (box[0] < 0) return;
    const YoloShape& s = c_.s;
    const double w = static_cast<double>(box[3]) * s.image_w,
                 h = static_cast<double>(box[4]) * s.image_h;
    int best = 0;
    for (int i = 1; i < 9; ++i) {
      const auto iou = [&](int j) {
        return overlap({0, 0, w, h}, {0, 0, s.anchor_w[j / 3][j % 3], s.anchor_h[j / 3][j % 3]});
      };
      if (iou(i) > iou(best)) best = i;
    }
    const int scale = best / 3, a = best % 3;
    // The product of two floats, by which the cell is chosen.
    const float x = box[1] * static_cast<float>(s.w[scale]);
    const float y = box[2] * static_cast<float>(s.h[scale]);
    const std::int64_t col = std::min<std::int64_t>(x, s.w[scale] - 1);
    const std::int64_t row = std::min<std::int64_t>(y, s.h[scale] - 1);
    Position& p = positions_[scale][(row * s.w[scale] + col) * 3 + a];
    p.box = box;
    p.x = x - col;
    p.y = y - row;
    p.w = std::log(w / s.anchor_w[scale][a]);
    p.h = std::log(h / s.anchor_h[scale][a]);
  }

  const Case& c_;
  const std::int64_t image_;
  std::array<std::vector<Position>, 3> positions_;
};

TEST_SUITE("gpu/canonical/yolo") {
  TEST_CASE("the loss has the same bits in every class") {
    Random random(test::seed("yolo"));
    for (int trial = 0; trial < 30; ++trial) {
      const Case c(random,
                   shape(random.integer(1, 3), random.integer(1, 30), random.integer(1, 12)));
      same_in_all_classes("trial " + std::to_string(trial),
                          [&](const KernelTable& t) { return c.run(t); });
    }
  }

  TEST_CASE("the loss is the sum of its terms, and the gradient its derivative") {
    Random random(test::seed("yolo gradient"));
    const Case c(random, shape(2, 4, 9));
    const auto out = c.run(reference());
    double mean = 0;
    std::int64_t assigned = 0, ignored = 0;
    for (std::int64_t image = 0; image < 2; ++image) {
      const Oracle oracle(c, image);
      double loss = 0;
      for (int scale = 0; scale < 3; ++scale) {
        for (std::int64_t i = 0; i < c.s.h[scale] * c.s.w[scale] * 3; ++i) {
          float* o = oracle.output(scale, i);
          assigned += oracle.position(scale, i).box != nullptr ? 1 : 0;
          ignored += oracle.position(scale, i).ignored ? 1 : 0;
          loss += oracle.loss(scale, i, o);
          for (int channel = 0; channel < 9; ++channel) {
            const float at = o[channel], step = 0x1p-8f;
            o[channel] = at + step;
            const double high = oracle.loss(scale, i, o);
            o[channel] = at - step;
            const double low = oracle.loss(scale, i, o);
            o[channel] = at;
            const double expected = (high - low) / (2.0 * step) / 2;
            check_near(out[scale][o - c.outputs[scale] + channel], expected, 3e-5, "gradient");
          }
        }
      }
      check_near(out[3][image], loss, 1e-5 * loss, "image loss");
      mean += loss / 2;
    }
    CHECK(assigned > 5);
    CHECK(ignored > 5);
    check_near(out[4][0], mean, 1e-5 * mean, "mean loss");
  }

  TEST_CASE("of two boxes at one position the later one is learnt") {
    Random random(test::seed("yolo conflict"));
    Case c(random, shape(1, 2, 2));
    const float both[] = {0, 0.4f, 0.4f, 0.3f, 0.3f, 1, 0.41f, 0.41f, 0.3f, 0.3f};
    std::memcpy(c.boxes, both, sizeof both);
    const auto conflict = c.run(reference());
    c.boxes[0] = -1;  // The earlier box has no effect.
    const auto alone = c.run(reference());
    const Oracle oracle(c, 0);
    for (int scale = 0; scale < 3; ++scale) {
      for (std::int64_t i = 0; i < c.s.h[scale] * c.s.w[scale] * 3; ++i) {
        if (oracle.position(scale, i).box == nullptr) continue;
        const std::int64_t at = oracle.output(scale, i) - c.outputs[scale];
        CHECK(std::memcmp(conflict[scale] + at, alone[scale] + at, 7 * sizeof(float)) == 0);
      }
    }
  }

  TEST_CASE(
      "positions without boxes learn that there is no object; a centre on the edge has a cell") {
    Random random(test::seed("yolo edge"));
    Case c(random, shape(1, 3, 1));
    c.boxes[0] = -1;
    const auto empty = same_in_all_classes("empty", [&](const KernelTable& t) { return c.run(t); });
    CHECK(empty[0][0] == 0.0f);
    CHECK(empty[0][4] > 0.0f);
    const float edge[] = {2, 1, 1, 1, 1};
    std::memcpy(c.boxes, edge, sizeof edge);
    const auto out = same_in_all_classes("edge", [&](const KernelTable& t) { return c.run(t); });
    CHECK(std::isfinite(out[4][0]));
    const Oracle oracle(c, 0);
    std::int64_t assigned = 0;
    for (std::int64_t i = 0; i < 18; ++i) assigned += oracle.position(0, i).box != nullptr ? 1 : 0;
    CHECK(assigned == 1);
  }

  TEST_CASE("a NaN output gives a NaN loss in every class") {
    Random random(test::seed("yolo nan"));
    const Case c(random, shape(1, 3, 2));
    c.outputs[1][4] = NAN;
    for (const KernelTable* t : vector_classes()) CHECK(std::isnan(c.run(*t)[4][0]));
    CHECK(std::isnan(c.run(reference())[4][0]));
  }
}

}  // namespace
}  // namespace es::gpu::testing

#pragma once
// The YOLO loss. All positions of a scale are decoded and compared with the boxes in vectors.
#include "gpu/canonical/vec/math.h"
#include "gpu/canonical/vec/reduce.h"
#include "gpu/canonical/yolo_math.h"

namespace es::gpu {
namespace {

// Neighbouring positions, as many as a vector has lanes, one in each lane.
struct YoloLanes {
  Vec x, y, w, h, objectness;        // outputs without activation
  Vec col, row, anchor_w, anchor_h;  // anchors in units of the image's sides
};

inline YoloLanes yolo_gather(const YoloShape& s, std::int64_t scale, const float* output,
                             std::int64_t first, std::int64_t count) {
  float lanes[9][kWidth] = {};
  for (std::int64_t lane = 0; lane < count; ++lane) {
    const std::int64_t anchor = (first + lane) % kYoloAnchors;
    const std::int64_t cell = (first + lane) / kYoloAnchors;
    const float* channels = output + (first + lane) * yolo_channels(s);
    for (int channel = 0; channel < 5; ++channel) lanes[channel][lane] = channels[channel];
    lanes[5][lane] = static_cast<float>(cell % s.w[scale]);
    lanes[6][lane] = static_cast<float>(cell / s.w[scale]);
    lanes[7][lane] = s.anchor_w[scale][anchor] / static_cast<float>(s.image_w);
    lanes[8][lane] = s.anchor_h[scale][anchor] / static_cast<float>(s.image_h);
  }
  return {load(lanes[0]), load(lanes[1]), load(lanes[2]), load(lanes[3]), load(lanes[4]),
          load(lanes[5]), load(lanes[6]), load(lanes[7]), load(lanes[8])};
}

struct YoloRectangles {
  Vec left, top, right, bottom, area;
};

inline YoloRectangles yolo_predicted(const YoloLanes& p, float recip_w, float recip_h) {
  const Vec x = mul(add(canonical_sigmoid(p.x), p.col), set(recip_w));
  const Vec y = mul(add(canonical_sigmoid(p.y), p.row), set(recip_h));
  const Vec w = mul(canonical_exp(p.w), p.anchor_w);
  const Vec h = mul(canonical_exp(p.h), p.anchor_h);
  const Vec half_w = mul(w, set(0.5f)), half_h = mul(h, set(0.5f));
  return {sub(x, half_w), sub(y, half_h), add(x, half_w), add(y, half_h), mul(w, h)};
}

// Returns yolo_counted() in each lane, against all boxes.
inline Vec yolo_counted(const YoloRectangles& r, const YoloCorners* corners, std::int64_t boxes) {
  Vec counted = set(1.0f);
  for (std::int64_t m = 0; m < boxes; ++m) {
    const YoloCorners& box = corners[m];
    const Vec w = sub(smaller_of(r.right, set(box.right)), larger_of(r.left, set(box.left)));
    const Vec h = sub(smaller_of(r.bottom, set(box.bottom)), larger_of(r.top, set(box.top)));
    const Vec common = mul(positive_part(w), positive_part(h));
    const Vec joint = sub(add(r.area, set(box.area)), common);
    counted = select(less(mul(joint, set(0.5f)), common), zero(), counted);
  }
  return select(unordered(r.left, r.top), set(kNaN), counted);
}

struct YoloSteps {
  static void background(const YoloShape& s, std::int64_t scale, const float* output,
                         const YoloCorners* corners, std::int64_t boxes, float mean_scale,
                         float* loss, float* gradient) {
    const std::int64_t positions = yolo_positions(s, scale), channels = yolo_channels(s);
    const float recip_w = recip(s.w[scale]), recip_h = recip(s.h[scale]);
    zero_floats(gradient, positions * channels);
    for_vectors(positions, [&](std::int64_t i, auto at) {
      const YoloLanes p = yolo_gather(s, scale, output, i, at.count());
      const Vec counted = yolo_counted(yolo_predicted(p, recip_w, recip_h), corners, boxes);
      at.store(loss + i, keep_positive(canonical_bce(p.objectness, zero()), counted));
      // The objectness of neighbouring positions lies `channels` floats apart, so the lanes are
      // stored one by one.
      float slope[kWidth];
      store(slope, keep_positive(mul(canonical_sigmoid(p.objectness), set(mean_scale)), counted));
      for (std::int64_t lane = 0; lane < at.count(); ++lane) {
        gradient[(i + lane) * channels + kYoloObjectness] = slope[lane];
      }
    });
  }

  static void classes(std::int64_t classes, std::int32_t label, const float* logits,
                      float mean_scale, float* loss, float* gradient) {
    for_vectors(classes, [=](std::int64_t k, auto at) {
      const Vec x = at.load(logits + k);
      at.store(loss + k, canonical_bce(x, zero()));
      at.store(gradient + k, mul(canonical_sigmoid(x), set(mean_scale)));
    });
    // The loop treated every class as absent. The class of the box is computed again as present.
    if (label < 0) return;
    loss[label] = canonical_bce(logits[label], 1.0f);
    gradient[label] = (canonical_sigmoid(logits[label]) - 1.0f) * mean_scale;
  }

  static float sum(std::int64_t n, const float* x) { return sum64(n, x); }
};

inline void yolo_loss(const YoloShape& s, const float* const outputs[3], const float* boxes,
                      float* const gradients[3], float* image_loss, float* mean_loss, float* ws) {
  yolo_loss_by<YoloSteps>(s, outputs, boxes, gradients, image_loss, mean_loss, ws);
}

}  // namespace
}  // namespace es::gpu

#pragma once
// The parts of the YOLO loss that exist once for each box, and the order in which a kernel class
// executes them. The formulas are in docs/reference/operators.md. The namespace is unnamed for the
// reason given in scalar_math.h.
//
// A position is one anchor of one cell of one scale. The positions of an image are numbered by
// (scale, row, column, anchor). The 5 + classes channels of a position are contiguous: x, y, w, h,
// objectness, classes.
#include "gpu/canonical/kernels.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kYoloScales = 3, kYoloAnchors = 3, kYoloBoxFloats = 5;
constexpr std::int64_t kYoloObjectness = 4, kYoloClasses = 5;  // numbers of channels

ES_HD inline std::int64_t yolo_channels(const YoloShape& s) {
  return kYoloClasses + s.classes;
}
ES_HD inline std::int64_t yolo_positions(const YoloShape& s, std::int64_t scale) {
  return s.h[scale] * s.w[scale] * kYoloAnchors;
}
ES_HD inline std::int64_t yolo_positions(const YoloShape& s) {
  return yolo_positions(s, 0) + yolo_positions(s, 1) + yolo_positions(s, 2);
}

// A rectangle of the image by its corners, in units of the sides of the image.
struct YoloCorners {
  float left, top, right, bottom, area;
};

ES_HD inline YoloCorners yolo_corners(const float* box) {
  const float half_w = box[3] * 0.5f, half_h = box[4] * 0.5f;
  return {box[1] - half_w, box[2] - half_h, box[1] + half_w, box[2] + half_h, box[3] * box[4]};
}

// The targets that one box sets for the position that learns it.
struct YoloTarget {
  std::int64_t scale, index;  // position `index` of the scale
  std::int64_t position;      // its number among all positions of the image
  std::int32_t label;         // -1: a class beyond the last one, so all classes are absent
  float x, y;                 // position of the centre in its cell, in [0, 1]
  float w, h;                 // logarithm of the box's side divided by the anchor's side
  float weight;               // of the terms for the place: 2 - area, so small boxes count more
};

// Returns the cell in which coordinate x of [0, cells] lies.
ES_HD inline std::int64_t yolo_cell(float x, std::int64_t cells) {
  if (!(x > 0.0f)) return 0;
  return x < static_cast<float>(cells) ? static_cast<std::int64_t>(x) : cells - 1;
}

// Returns the anchor (scale * 3 + anchor) that overlaps most with a box of w x h pixels if both
// have the same centre. The first one of equals.
ES_HD inline std::int64_t yolo_best_anchor(const YoloShape& s, float w, float h) {
  std::int64_t best = 0;
  float best_overlap = -1.0f;
  for (std::int64_t i = 0; i < kYoloScales * kYoloAnchors; ++i) {
    const float anchor_w = s.anchor_w[i / kYoloAnchors][i % kYoloAnchors];
    const float anchor_h = s.anchor_h[i / kYoloAnchors][i % kYoloAnchors];
    const float common = (w < anchor_w ? w : anchor_w) * (h < anchor_h ? h : anchor_h);
    const float overlap = common / ((w * h + anchor_w * anchor_h) - common);
    if (best_overlap < overlap) {
      best = i;
      best_overlap = overlap;
    }
  }
  return best;
}

ES_HD inline YoloTarget yolo_target(const YoloShape& s, const float* box) {
  const float w = box[3] * static_cast<float>(s.image_w);
  const float h = box[4] * static_cast<float>(s.image_h);
  const std::int64_t best = yolo_best_anchor(s, w, h);
  const std::int64_t scale = best / kYoloAnchors, anchor = best % kYoloAnchors;
  const float x = box[1] * static_cast<float>(s.w[scale]);
  const float y = box[2] * static_cast<float>(s.h[scale]);
  const std::int64_t col = yolo_cell(x, s.w[scale]), row = yolo_cell(y, s.h[scale]);
  YoloTarget t;
  t.scale = scale;
  t.index = (row * s.w[scale] + col) * kYoloAnchors + anchor;
  t.position = t.index;
  for (std::int64_t i = 0; i < scale; ++i) t.position += yolo_positions(s, i);
  const bool known = box[0] < static_cast<float>(s.classes);
  t.label = known ? static_cast<std::int32_t>(box[0]) : -1;
  t.x = x - static_cast<float>(col);
  t.y = y - static_cast<float>(row);
  t.w = canonical_log(w / s.anchor_w[scale][anchor]);
  t.h = canonical_log(h / s.anchor_h[scale][anchor]);
  t.weight = fma(-box[3], box[4], 2.0f);
  return t;
}

// The terms for the place of a box. Returns their sum and writes the gradients of the channels
// 0..3.
ES_HD inline float yolo_place(const YoloTarget& t, const float* output, float mean_scale,
                              float* gradient) {
  const float w = output[2] - t.w, h = output[3] - t.h;
  gradient[0] = (t.weight * (canonical_sigmoid(output[0]) - t.x)) * mean_scale;
  gradient[1] = (t.weight * (canonical_sigmoid(output[1]) - t.y)) * mean_scale;
  gradient[2] = (t.weight * (w + w)) * mean_scale;
  gradient[3] = (t.weight * (h + h)) * mean_scale;
  const float centre =
      t.weight * canonical_bce(output[0], t.x) + t.weight * canonical_bce(output[1], t.y);
  return (centre + t.weight * (w * w)) + t.weight * (h * h);
}

// Returns the rectangle that a position predicts.
ES_HD inline YoloCorners yolo_prediction(const YoloShape& s, std::int64_t scale, std::int64_t index,
                                         const float* output) {
  const std::int64_t anchor = index % kYoloAnchors, cell = index / kYoloAnchors;
  const auto col = static_cast<float>(cell % s.w[scale]);
  const auto row = static_cast<float>(cell / s.w[scale]);
  const float x = (canonical_sigmoid(output[0]) + col) * recip(s.w[scale]);
  const float y = (canonical_sigmoid(output[1]) + row) * recip(s.h[scale]);
  const float w =
      canonical_exp(output[2]) * (s.anchor_w[scale][anchor] / static_cast<float>(s.image_w));
  const float h =
      canonical_exp(output[3]) * (s.anchor_h[scale][anchor] / static_cast<float>(s.image_h));
  const float half_w = w * 0.5f, half_h = h * 0.5f;
  return {x - half_w, y - half_h, x + half_w, y + half_h, w * h};
}

// Returns whether intersection over union is above one half.
ES_HD inline bool yolo_overlaps(const YoloCorners& a, const YoloCorners& b) {
  const float w = (b.right < a.right ? b.right : a.right) - (a.left < b.left ? b.left : a.left);
  const float h = (b.bottom < a.bottom ? b.bottom : a.bottom) - (a.top < b.top ? b.top : a.top);
  const float common = (w > 0.0f ? w : 0.0f) * (h > 0.0f ? h : 0.0f);
  return ((a.area + b.area) - common) * 0.5f < common;
}

// Returns the factor of the objectness terms at a position without a box of its own: 1, or +0 if
// its prediction `mine` overlaps a box, or NaN if that is undecidable. (`left` and `top` contain
// the centre and half of the side. With finite numbers they are not NaN, because only a side can be
// infinite.)
ES_HD inline float yolo_counted(const YoloCorners& mine, bool overlaps) {
  if (is_nan(mine.left)) return mine.left;
  if (is_nan(mine.top)) return mine.top;
  return overlaps ? 0.0f : 1.0f;
}

// The workspace of one image. In floats: objectness losses [positions], box losses [M], class
// losses [classes], corners [M] and positions [M] of boxes.
struct YoloWorkspace {
  float *objectness, *box_loss, *class_loss;
  YoloCorners* corners;
  std::int32_t* claimed;  // the position of each box; -1: no box
};

ES_HD inline std::size_t yolo_loss_workspace_floats(const YoloShape& s) {
  constexpr std::int64_t kBox = 2 + sizeof(YoloCorners) / sizeof(float);
  return static_cast<std::size_t>(yolo_positions(s) + s.classes + kBox * s.boxes);
}

ES_HD inline YoloWorkspace yolo_workspace(const YoloShape& s, float* ws) {
  YoloWorkspace w;
  w.objectness = ws;
  w.box_loss = w.objectness + yolo_positions(s);
  w.class_loss = w.box_loss + s.boxes;
  w.corners = reinterpret_cast<YoloCorners*>(w.class_loss + s.classes);
  w.claimed = reinterpret_cast<std::int32_t*>(w.corners + s.boxes);
  return w;
}

// Writes the corners of the boxes that exist, one after the other, and returns their number. Fills
// `claimed`.
ES_HD inline std::int64_t yolo_read_boxes(const YoloShape& s, const float* boxes,
                                          const YoloWorkspace& ws) {
  std::int64_t count = 0;
  for (std::int64_t m = 0; m < s.boxes; ++m) {
    const float* box = boxes + m * kYoloBoxFloats;
    ws.claimed[m] = -1;
    if (box[0] < 0.0f) continue;
    ws.claimed[m] = static_cast<std::int32_t>(yolo_target(s, box).position);
    ws.corners[count++] = yolo_corners(box);
  }
  return count;
}

// Returns whether box m of an image learns: it exists, and no later box claims its position.
ES_HD inline bool yolo_learns(std::int64_t boxes, const std::int32_t* claimed, std::int64_t m) {
  for (std::int64_t later = m + 1; later < boxes; ++later) {
    if (claimed[later] == claimed[m]) return false;
  }
  return claimed[m] >= 0;
}

// The whole loss. Steps contains what each kernel class does in its own way:
//   background(shape, scale, output, corners, boxes, mean_scale, loss, gradient)   treats every
//     position of a scale as one without a box: writes losses [positions] and all channels'
//     gradients
//   classes(classes, label, logits, mean_scale, loss, gradient)   binary cross entropies
//   sum(n, x)                                                     SUM64
template <class Steps>
inline void yolo_loss_by(const YoloShape& s, const float* const outputs[3], const float* boxes,
                         float* const gradients[3], float* image_loss, float* mean_loss,
                         float* ws_floats) {
  const float mean_scale = recip(s.batch);
  const YoloWorkspace ws = yolo_workspace(s, ws_floats);
  for (std::int64_t image = 0; image < s.batch; ++image, boxes += s.boxes * kYoloBoxFloats) {
    const std::int64_t count = yolo_read_boxes(s, boxes, ws);
    float* objectness = ws.objectness;
    for (std::int64_t scale = 0; scale < kYoloScales; ++scale) {
      const std::int64_t at = image * yolo_positions(s, scale) * yolo_channels(s);
      Steps::background(s, scale, outputs[scale] + at, ws.corners, count, mean_scale, objectness,
                        gradients[scale] + at);
      objectness += yolo_positions(s, scale);
    }
    for (std::int64_t m = 0; m < s.boxes; ++m) {
      ws.box_loss[m] = 0.0f;
      if (!yolo_learns(s.boxes, ws.claimed, m)) continue;
      const YoloTarget t = yolo_target(s, boxes + m * kYoloBoxFloats);
      const std::int64_t at = (image * yolo_positions(s, t.scale) + t.index) * yolo_channels(s);
      const float* output = outputs[t.scale] + at;
      float* gradient = gradients[t.scale] + at;
      // A box overwrites the loss and the gradients that background() wrote for its position.
      const float place = yolo_place(t, output, mean_scale, gradient);
      ws.objectness[t.position] = canonical_bce(output[kYoloObjectness], 1.0f);
      gradient[kYoloObjectness] = (canonical_sigmoid(output[kYoloObjectness]) - 1.0f) * mean_scale;
      Steps::classes(s.classes, t.label, output + kYoloClasses, mean_scale, ws.class_loss,
                     gradient + kYoloClasses);
      ws.box_loss[m] = place + Steps::sum(s.classes, ws.class_loss);
    }
    image_loss[image] =
        Steps::sum(yolo_positions(s), ws.objectness) + Steps::sum(s.boxes, ws.box_loss);
  }
  *mean_loss = Steps::sum(s.batch, image_loss) * mean_scale;
}

}  // namespace
}  // namespace es::gpu

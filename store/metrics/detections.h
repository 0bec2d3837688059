#pragma once
// From the raw outputs of YOLOv3 to boxes, and from boxes to hits.
//
// Cell (row, col) of a grid of h x w and anchor a name the box
//   x = (sigmoid(t_x) + col) / w    y = (sigmoid(t_y) + row) / h
//   width = exp(t_w) * anchor_w / 416    height = exp(t_h) * anchor_h / 416
// in parts of the image, with score sigmoid(objectness) * sigmoid(class) for each class.
#include <cstdint>
#include <span>
#include <vector>

#include "store/dataset/sample_source.h"
#include "store/metrics/metric.h"

namespace es::store {

inline constexpr double kScoreMin = 0.01;            // weaker boxes are not looked at
inline constexpr std::size_t kCandidatesMax = 1000;  // of an image; the strongest
inline constexpr std::size_t kFoundMax = 100;        // of an image, after suppression
inline constexpr double kSameBox = 0.45;             // of one class: the weaker one is suppressed
inline constexpr double kHitOverlap = 0.5;

struct FoundBox {
  std::int32_t label = 0;
  double score = 0;
  double x = 0, y = 0, w = 0, h = 0;  // centre and sides
};

// Intersection over union; 0 when either is empty.
double overlap(const FoundBox& a, const FoundBox& b);

// Sides of a grid.
struct GridSize {
  std::uint32_t h = 1, w = 1;
};

// Boxes of one scale (0 coarse .. 2 fine), appended. REQUIRES: output.size() ==
// h * w * 3 * (5 + classes). Boxes with numbers that are not finite are left out.
void decode_scale(std::span<const float> output, int scale, GridSize grid, std::uint32_t classes,
                  std::vector<FoundBox>& found);

// The strongest boxes without those that a stronger one of their class covers; descending score.
std::vector<FoundBox> suppress(std::vector<FoundBox> candidates);

// A found box, strongest first, hits the true box of its class that it overlaps most, when that is
// at least kHitOverlap and nothing hit it before. What falls on a difficult box is left out.
std::vector<ScoredBox> match(std::span<const FoundBox> found, std::span<const TrueBox> truth);

}  // namespace es::store

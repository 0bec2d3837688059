#pragma once
// Converts the raw outputs of YOLOv3 to boxes, and boxes to hits.
//
// Cell (row, col) of a grid of h x w and anchor a name the box
//   x = (sigmoid(t_x) + col) / w    y = (sigmoid(t_y) + row) / h
//   width = exp(t_w) * anchor_w / 416    height = exp(t_h) * anchor_h / 416
// in parts of the image. Its score for each class is sigmoid(objectness) * sigmoid(class).
#include <cstdint>
#include <span>
#include <vector>

#include "store/dataset/sample_source.h"
#include "store/metrics/metric.h"

namespace es::store {

inline constexpr double kScoreMin = 0.01;  // weaker boxes are ignored
// Strongest boxes of an image that are considered.
inline constexpr std::size_t kCandidatesMax = 1000;
inline constexpr std::size_t kFoundMax = 100;  // boxes of an image after suppression
// Overlap in one class above which the weaker box is suppressed.
inline constexpr double kSameBox = 0.45;
// Smallest overlap of a hit.
inline constexpr double kHitOverlap = 0.5;

struct FoundBox {
  std::int32_t label = 0;
  double score = 0;
  double x = 0, y = 0, w = 0, h = 0;  // centre and sides
};

// Intersection over union; 0 if one of the boxes is empty.
double overlap(const FoundBox& a, const FoundBox& b);

// Sides of a grid.
struct GridSize {
  std::uint32_t h = 1, w = 1;
};

// Appends the boxes of one scale (0 coarse .. 2 fine). Boxes with values that are not finite are
// omitted. REQUIRES: output.size() == h * w * 3 * (5 + classes).
void decode_scale(std::span<const float> output, int scale, GridSize grid, std::uint32_t classes,
                  std::vector<FoundBox>& found);

// The strongest boxes without those that a stronger box of their class covers, by descending score.
std::vector<FoundBox> suppress(std::vector<FoundBox> candidates);

// Compares found boxes, strongest first, with the true boxes. A found box hits the true box of its
// class with which it overlaps most, if that overlap is at least kHitOverlap and no box has hit it
// before. A found box whose best match is a difficult box is omitted.
std::vector<ScoredBox> match(std::span<const FoundBox> found, std::span<const TrueBox> truth);

}  // namespace es::store

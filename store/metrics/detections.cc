#include "store/metrics/detections.h"

#include <algorithm>
#include <cmath>

#include "proto/base/check.h"
#include "proto/base/yolo_anchors.h"
#include "store/fixed_math.h"

namespace es::store {
namespace {

constexpr std::size_t kObjectness = 4, kClasses = 5;  // channels of an anchor

bool stronger(const FoundBox& a, const FoundBox& b) {
  return a.score > b.score;
}

// Length of the common part of two intervals, each given by its centre and its length.
double common_length(double a, double a_length, double b, double b_length) {
  const double low = std::max(a - a_length / 2, b - b_length / 2);
  const double high = std::min(a + a_length / 2, b + b_length / 2);
  return std::max(0.0, high - low);
}

bool finite(const FoundBox& box) {
  return std::isfinite(box.x) && std::isfinite(box.y) && std::isfinite(box.w) &&
         std::isfinite(box.h) && std::isfinite(box.score);
}

// Position of an anchor.
struct Place {
  GridSize grid;
  std::uint32_t row, col;
  double anchor_w, anchor_h;  // as parts of the image
};

// Appends one box for each class whose score is at least kScoreMin.
void decode_anchor(std::span<const float> t, const Place& place, std::vector<FoundBox>& found) {
  const double object = fixed_sigmoid(t[kObjectness]);
  // Written as a negation, so that a NaN also returns here.
  if (!(object >= kScoreMin)) return;
  FoundBox box{.x = (fixed_sigmoid(t[0]) + place.col) / place.grid.w,
               .y = (fixed_sigmoid(t[1]) + place.row) / place.grid.h,
               .w = fixed_exp(t[2]) * place.anchor_w,
               .h = fixed_exp(t[3]) * place.anchor_h};
  for (std::size_t c = 0; c + kClasses < t.size(); ++c) {
    box.score = object * fixed_sigmoid(t[kClasses + c]);
    if (!(box.score >= kScoreMin)) continue;
    box.label = static_cast<std::int32_t>(c);
    if (finite(box)) found.push_back(box);
  }
}

FoundBox as_found(const TrueBox& box) {
  return {.label = box.label, .x = box.x, .y = box.y, .w = box.w, .h = box.h};
}

}  // namespace

double overlap(const FoundBox& a, const FoundBox& b) {
  const double common = common_length(a.x, a.w, b.x, b.w) * common_length(a.y, a.h, b.y, b.h);
  const double all = a.w * a.h + b.w * b.h - common;
  // With common > 0 the denominator is not 0, since it is at least the larger of the two boxes.
  return common > 0 ? common / all : 0.0;
}

void decode_scale(std::span<const float> output, int scale, GridSize grid, std::uint32_t classes,
                  std::vector<FoundBox>& found) {
  const std::size_t channels = kClasses + classes;
  ES_CHECK(output.size() == std::size_t{grid.h} * grid.w * kYoloAnchorsPerScale * channels);
  std::size_t at = 0;
  for (std::uint32_t row = 0; row < grid.h; ++row) {
    for (std::uint32_t col = 0; col < grid.w; ++col) {
      for (int a = 0; a < kYoloAnchorsPerScale; ++a, at += channels) {
        const Place place{grid, row, col, double{kYoloAnchorWidth[scale][a]} / kYoloAnchorSide,
                          double{kYoloAnchorHeight[scale][a]} / kYoloAnchorSide};
        decode_anchor(output.subspan(at, channels), place, found);
      }
    }
  }
}

std::vector<FoundBox> suppress(std::vector<FoundBox> candidates) {
  // Stable, so that the standard library does not choose among equal scores. Sorted before the cut,
  // so that the strongest boxes stay.
  std::ranges::stable_sort(candidates, stronger);
  if (candidates.size() > kCandidatesMax) candidates.resize(kCandidatesMax);
  std::vector<FoundBox> kept;
  for (const FoundBox& box : candidates) {
    const bool covered = std::ranges::any_of(kept, [&](const FoundBox& other) {
      return other.label == box.label && overlap(other, box) > kSameBox;
    });
    if (!covered) kept.push_back(box);
    if (kept.size() == kFoundMax) break;
  }
  return kept;
}

std::vector<ScoredBox> match(std::span<const FoundBox> found, std::span<const TrueBox> truth) {
  std::vector<bool> taken(truth.size(), false);
  std::vector<ScoredBox> scored;
  for (const FoundBox& box : found) {
    std::size_t best = truth.size();
    double most = kHitOverlap;
    // True boxes that are hit already take part too: a second box on the same object is an error,
    // and not a hit of a neighbour.
    for (std::size_t t = 0; t < truth.size(); ++t) {
      if (truth[t].label != box.label) continue;
      // Never NaN, with which the comparison below would not skip the box: a true box is finite and
      // lies in the image, so the common part is at most 1.
      const double here = overlap(box, as_found(truth[t]));
      // Of true boxes with equal overlap, the first one is taken.
      if (here < most || (here == most && best != truth.size())) continue;
      most = here;
      best = t;
    }
    const bool matched = best != truth.size();
    // VOC ignores detections of difficult objects; they are neither hits nor errors.
    if (matched && truth[best].difficult) continue;
    // Rounding to fp32 can make scores equal. They keep this order then, because
    // average_precision() sorts stably.
    scored.push_back({box.label, static_cast<float>(box.score), matched && !taken[best]});
    // `found` is ordered by score, so the strongest box gets the hit.
    if (matched) taken[best] = true;
  }
  return scored;
}

}  // namespace es::store

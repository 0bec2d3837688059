#pragma once
// The anchors of YOLOv3 (Redmon & Farhadi 2018): typical sizes of boxes, which the model's outputs
// scale. The model and the metrics share them.
#include <cstdint>

namespace es {

inline constexpr int kYoloScaleCount = 3;  // coarse (stride 32) to fine (stride 8)
inline constexpr int kYoloAnchorsPerScale = 3;
// The anchors are in pixels of a square image of this side.
inline constexpr float kYoloAnchorSide = 416.0F;

// Sides in pixels, indexed by [scale][anchor]. Divided by kYoloAnchorSide they are parts of the
// image's side.
inline constexpr float kYoloAnchorWidth[kYoloScaleCount][kYoloAnchorsPerScale] = {
    {116, 156, 373}, {30, 62, 59}, {10, 16, 33}};
inline constexpr float kYoloAnchorHeight[kYoloScaleCount][kYoloAnchorsPerScale] = {
    {90, 198, 326}, {61, 45, 119}, {13, 30, 23}};

}  // namespace es

#pragma once
// The anchors of YOLOv3 (Redmon & Farhadi 2018): typical sides of boxes, which the model's outputs
// scale. The model and the metrics read them here.
#include <cstdint>

namespace es {

inline constexpr int kYoloScaleCount = 3;  // coarse (stride 32) to fine (stride 8)
inline constexpr int kYoloAnchorsPerScale = 3;
inline constexpr float kYoloAnchorSide = 416.0F;  // the anchors are pixels of an image of this side

// [scale][anchor]. As a part of the image's side: divided by kYoloAnchorSide.
inline constexpr float kYoloAnchorWidth[kYoloScaleCount][kYoloAnchorsPerScale] = {
    {116, 156, 373}, {30, 62, 59}, {10, 16, 33}};
inline constexpr float kYoloAnchorHeight[kYoloScaleCount][kYoloAnchorsPerScale] = {
    {90, 198, 326}, {61, 45, 119}, {13, 30, 23}};

}  // namespace es

#pragma once
// Chooses the part of an image file that becomes the sample. The arithmetic is fp64 (+ - * /, sqrt,
// fixed_exp) and integers, so the result is the same on every machine.
#include <cstdint>

#include "proto/base/philox.h"
#include "store/dataset/images/resize.h"
#include "store/dataset/layouts.h"

namespace es::store {

// Random resized crop (Szegedy et al. 2015; RandomResizedCrop of torchvision): a box at a uniform
// place, with a uniform part 0.08..1 of the area and an aspect ratio of 3/4..4/3 whose logarithm is
// uniform. A box is drawn up to ten times until it fits; otherwise it is the largest central box
// with an allowed aspect ratio. A pure function of (key, sample), where key = stream_key(seed,
// kResizedCrop, epoch).
PixelBox draw_crop(std::uint32_t height, std::uint32_t width, PhiloxKey key, std::uint64_t sample);

// The largest central box with the aspect ratio of `shape`. With `zoom` its sides are 7/8 of that
// (224 of 256 pixels), which is usual for the evaluation after training with random resized crops.
PixelBox central_crop(std::uint32_t height, std::uint32_t width, const ImageShape& shape,
                      bool zoom);

}  // namespace es::store

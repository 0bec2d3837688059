#pragma once
// Which part of an image file becomes the sample. fp64 (+ - * /, sqrt, fixed_exp) and integers: the
// same on every machine.
#include <cstdint>

#include "proto/base/philox.h"
#include "store/dataset/images/resize.h"
#include "store/dataset/layouts.h"

namespace es::store {

// Random resized crop (Szegedy et al. 2015; torchvision's RandomResizedCrop): a box with a uniform
// part 0.08..1 of the area and an aspect ratio whose logarithm is uniform, 3/4..4/3, at a uniform
// place. Drawn up to ten times until it fits, else the largest central box with an allowed aspect.
// A pure function of (key, sample); key = stream_key(seed, kResizedCrop, epoch).
PixelBox draw_crop(std::uint32_t height, std::uint32_t width, PhiloxKey key, std::uint64_t sample);

// The largest central box with the aspect ratio of `shape`; with `zoom` its sides are then 7/8 of
// that (224 of 256 pixels, as images are evaluated that were trained with random resized crops).
PixelBox central_crop(std::uint32_t height, std::uint32_t width, const ImageShape& shape,
                      bool zoom);

}  // namespace es::store

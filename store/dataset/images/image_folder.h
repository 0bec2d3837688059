#pragma once
// Samples of classification from a directory of JPEG and PNG files:
//
//   DIR/train/CLASS/NAME.jpg   DIR/val/CLASS/NAME.png
//
// Classes are numbered in the order of their names' bytes, files of a class likewise; the name of a
// file ends in .jpg, .jpeg or .png, in any case. Files are decoded when they are used
// (raw_image.h).
//
// data.random_resized_crop: training images are random crops, evaluation images the central 7/8
// (crop.h). Without it both are the largest central box with the aspect ratio of height and width.
// Boxes are resized (resize.h), then shifted, mirrored and normalised (pixel_writer.h).
#include <memory>

#include "store/dataset/record_source.h"

namespace es::store {

// At most this many files are listed.
inline constexpr std::uint64_t kImageFilesMax = 20'000'000;

// Errors name the directory: not found (a folder); usage (a number of classes that is not
// model.classes, a class of val that train does not have, no image, channels other than 1 or 3).
Result<std::shared_ptr<const SampleSource>> image_folder_source(const JobSpec& spec);

}  // namespace es::store

#pragma once
// Samples of classification from a directory of JPEG and PNG files:
//
//   DIR/train/CLASS/NAME.jpg   DIR/val/CLASS/NAME.png
//
// Classes are numbered in the order of the bytes of their names, and so are the files of a class.
// The name of a file ends in .jpg, .jpeg or .png, in upper or lower case. Files are decoded when
// they are used (raw_image.h), and cropped and augmented (augmented_image.h).
#include <memory>
#include <string>
#include <vector>

#include "store/dataset/record_source.h"

namespace es::store {

// Limit of the number of files.
inline constexpr std::uint64_t kImageFilesMax = 20'000'000;

// Errors name the directory: not found (a folder); usage (the number of classes is not
// model.classes, a class of val does not exist in train, there is no image, channels are neither 1
// nor 3).
Result<std::shared_ptr<const SampleSource>> image_folder_source(const JobSpec& spec);

// The names of the classes, in the order of their numbers. Errors: not found (the folder train).
Result<std::vector<std::string>> image_folder_classes(const DataSpec& data);

}  // namespace es::store

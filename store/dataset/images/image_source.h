#pragma once
// Samples of classification whose images all have one shape. They are in memory (IDX, CIFAR-10) or
// computed (synthetic). pixel_writer.h describes augmentation and normalisation.
#include <memory>

#include "store/dataset/images/image_dataset.h"
#include "store/dataset/images/pixel_writer.h"
#include "store/dataset/images/synthetic_images.h"
#include "store/dataset/record_source.h"

namespace es::store {

// Provides images in memory as samples. Error (usage): normalise does not fit the number of
// channels.
Result<std::shared_ptr<const SampleSource>> memory_source(ImageDataset dataset,
                                                          const DataSpec& spec, std::uint64_t seed);

// Provides synthetic images, which are computed when they are used.
Result<std::shared_ptr<const SampleSource>> synthetic_image_source(const DataSpec& spec,
                                                                   std::uint32_t classes,
                                                                   std::uint64_t seed);

}  // namespace es::store

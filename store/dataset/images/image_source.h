#pragma once
// Samples of classification whose images all have one shape: in memory (IDX, CIFAR-10) or computed
// (synthetic). Augmentation and normalisation: pixel_writer.h.
#include <memory>

#include "store/dataset/images/image_dataset.h"
#include "store/dataset/images/pixel_writer.h"
#include "store/dataset/images/synthetic_images.h"
#include "store/dataset/record_source.h"

namespace es::store {

// The images in memory, as samples. Error (usage): normalise does not fit the channels.
Result<std::shared_ptr<const SampleSource>> memory_source(ImageDataset dataset,
                                                          const DataSpec& spec, std::uint64_t seed);

// Synthetic images, computed when they are used.
Result<std::shared_ptr<const SampleSource>> synthetic_image_source(const DataSpec& spec,
                                                                   std::uint32_t classes,
                                                                   std::uint64_t seed);

}  // namespace es::store

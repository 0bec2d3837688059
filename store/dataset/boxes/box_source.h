#pragma once
// Samples of detection: an image of data.height x data.width and at most data.boxes boxes. Unused
// places have class -1 and zeros. A mirrored image (data.flip) has mirrored boxes.
//
// voc: images are resized as a whole, without keeping their aspect ratio. Boxes are parts of the
// sides, so they remain right. Difficult objects are not part of a sample, and are not counted in
// evaluation.
#include <memory>

#include "store/dataset/record_source.h"

namespace es::store {

// Errors: as read_voc_set; also usage if the number of classes is not model.classes, if an image
// has more objects than data.boxes, if data.channels is not 3, or if crop_padding is not 0.
Result<std::shared_ptr<const SampleSource>> voc_source(const JobSpec& spec);

// The facts about voc_source from the lists alone. Errors: the same, except for annotations, which
// are not read.
Result<DataFacts> voc_facts(const JobSpec& spec);

// Synthetic images: one to three objects (at most data.boxes) on noise. Each object is in a quarter
// of the image of its own, and each of its sides is half to the whole of that quarter's side. A
// class has 4 x 4 cells of random colour, which fill its boxes, mixed with noise. Images and boxes
// are drawn by Philox from (half, number), without a seed. Error (usage): as above; sides below 8
// pixels.
Result<std::shared_ptr<const SampleSource>> synthetic_box_source(const JobSpec& spec);

}  // namespace es::store

#pragma once
// Samples of detection: an image of data.height x data.width and at most data.boxes boxes; places
// that no box needs have class -1 and zeros. A mirrored image (data.flip) has mirrored boxes.
//
// voc: images are resized as a whole, without keeping their aspect ratio (boxes are parts of the
// sides, so they stay right); difficult objects are not in a sample, and not counted in evaluation.
// synthetic: see below.
#include <memory>

#include "store/dataset/record_source.h"

namespace es::store {

// Error: as read_voc_set; usage also when the classes are not model.classes or an image has more
// objects than data.boxes, and for data.channels other than 3 or crop_padding other than 0.
Result<std::shared_ptr<const SampleSource>> voc_source(const JobSpec& spec);

// Facts of voc_source from the lists alone. Errors: the same but for annotations, which are not
// read.
Result<DataFacts> voc_facts(const JobSpec& spec);

// One to three objects (data.boxes at most) on noise, each in a quarter of the image of its own,
// with sides of half to the whole of the quarter's. A class has 4 x 4 cells of random colour, which
// fill its boxes, mixed with noise; image and boxes are drawn by Philox from (half, number),
// without a seed. Error (usage): as above; sides below 8 pixels.
Result<std::shared_ptr<const SampleSource>> synthetic_box_source(const JobSpec& spec);

}  // namespace es::store

#pragma once
// Images and their labels for models from model files. The input of such a model has the shape
// [c,h,w], but a sample holds it as [h,w,c] (gpu/import/import.h), as the sources of this folder
// write it.
#include <memory>

#include "store/dataset/captured_inputs.h"
#include "store/dataset/sample_source.h"

namespace es::store {

// The number of classes of the input "label". Error (usage): the inputs are not "image" f32 [c,h,w]
// and then "label" i32 of one value from 0.
Result<std::uint32_t> captured_classes(const CapturedInputs& inputs, const std::string& kind);

// Wraps a source of images. Error (usage): its images have another shape than the input.
Result<std::shared_ptr<const SampleSource>> captured_images(
    std::shared_ptr<const SampleSource> images, const CapturedInputs& inputs,
    const std::string& kind);

}  // namespace es::store

#pragma once
// Samples in NumPy files, for models from model files: DIRECTORY/train/NAME.npy and
// DIRECTORY/eval/NAME.npy for every input NAME of the model.
//
// The first axis of an array is the sample, and the others are the shape of the input. Allowed
// types of elements, by the type of the input:
//   f32    f4; f8, rounded to the nearest f4; u1, as the numbers 0 to 255
//   i32    i4, i8, u1 or bool; every element is in the range of the input
//   bool   bool, or u1 with 0 and 1
// All arrays of a half have the same number of samples. Without a directory "eval" there are no
// evaluation samples. Headers are read when the source is opened, and samples when they are used.
#include <memory>

#include "store/dataset/captured_inputs.h"
#include "store/dataset/sample_source.h"

namespace es::store {

// Errors: those of NpyFile::open; usage, naming file, field, value and what is allowed.
Result<std::shared_ptr<const SampleSource>> arrays_source(const JobSpec& spec,
                                                          const CapturedInputs& inputs);

}  // namespace es::store

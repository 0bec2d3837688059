#pragma once
// Samples in NumPy files, for models from model files: DIRECTORY/train/NAME.npy and
// DIRECTORY/eval/NAME.npy for every input NAME of the model.
//
// InputArray says which arrays an input can be read from. All arrays of a half have the same number
// of samples. Without a directory "eval" there are no evaluation samples. Headers are read when the
// source is opened, and samples when they are used.
#include <memory>

#include "store/dataset/captured_inputs.h"
#include "store/dataset/sample_source.h"

namespace es::store {

// Errors: those of NpyFile::open; usage, naming file, field, value and what is allowed.
Result<std::shared_ptr<const SampleSource>> arrays_source(const JobSpec& spec,
                                                          const CapturedInputs& inputs);

}  // namespace es::store

#pragma once
// Samples that a Python dataset computes, for models from model files.
//
// data.path is a file with the pickled dataset, which the Python package has written
// (python/easyscale/dataset_file.py). Its digest belongs to the job. Python runs in loader
// processes (loader_pool.h), and only when samples are computed: the job file says how many there
// are. The random numbers of Python, NumPy and PyTorch are seeded for every sample from the seed of
// the job, the epoch and the number of the sample, so a sample is a pure function of these.
#include <memory>

#include "store/dataset/captured_inputs.h"
#include "store/dataset/sample_source.h"

namespace es::store {

// Reads the file once, for its digest. Errors: refused (this process runs no programs for clients);
// those of DataFile::open; usage if the digest of the file is not data.path_digest.
Result<std::shared_ptr<const SampleSource>> python_source(const JobSpec& spec,
                                                          const CapturedInputs& inputs);

}  // namespace es::store

#pragma once
// The sample sources of the kinds of data; open_samples() chooses among them. The source files say
// what their data look like.
#include <memory>
#include <string>
#include <vector>

#include "proto/base/job_spec.h"
#include "store/dataset/captured_inputs.h"
#include "store/dataset/images/image_dataset.h"
#include "store/dataset/images/pixel_writer.h"
#include "store/dataset/images/synthetic_images.h"
#include "store/dataset/record_source.h"
#include "store/dataset/sample_source.h"

namespace es::store {

// --- captured_samples.cc

// Returns a built-in model that has the same fields, and the number of classes. Error (usage): the
// inputs are those of no task.
Result<ModelSpec> model_of_task(const CapturedInputs& inputs, const std::string& kind);

// Wraps a source that such a model reads. Error (usage): its fields differ from the inputs.
Result<std::shared_ptr<const SampleSource>> captured_samples(
    std::shared_ptr<const SampleSource> source, const CapturedInputs& inputs,
    const std::string& kind);

// --- images/image_source.cc

// Provides images in memory as samples. Error (usage): normalise does not fit the number of
// channels.
Result<std::shared_ptr<const SampleSource>> memory_source(ImageDataset dataset,
                                                          const DataSpec& spec, std::uint64_t seed);

// Provides synthetic images, which are computed when they are used.
Result<std::shared_ptr<const SampleSource>> synthetic_image_source(const DataSpec& spec,
                                                                   std::uint32_t classes,
                                                                   std::uint64_t seed);

// --- images/image_folder.cc

// Limit of the number of files.
inline constexpr std::uint64_t kImageFilesMax = 20'000'000;

// Errors name the directory: not found (a folder); usage (the number of classes is not
// model.classes, a class of val does not exist in train, there is no image, channels are neither 1
// nor 3).
Result<std::shared_ptr<const SampleSource>> image_folder_source(const JobSpec& spec);

// The names of the classes, in the order of their numbers. Errors: not found (the folder train).
Result<std::vector<std::string>> image_folder_classes(const DataSpec& data);

// --- shards/webdataset_source.cc

// Errors: those of shard_files, index_shards and AugmentedImage.
Result<std::shared_ptr<const SampleSource>> webdataset_source(const JobSpec& spec);

// --- arrays/arrays_source.cc

// Errors: those of NpyFile::open; usage, naming file, field, value and what is allowed.
Result<std::shared_ptr<const SampleSource>> arrays_source(const JobSpec& spec,
                                                          const CapturedInputs& inputs);

// --- python/python_source.cc

// Reads the file once, for its digest. Errors: refused (this process runs no programs for clients);
// those of DataFile::open; usage if the digest of the file is not data.path_digest.
Result<std::shared_ptr<const SampleSource>> python_source(const JobSpec& spec,
                                                          const CapturedInputs& inputs);

// --- tokens/tokens_source.cc

// Reads headers and sizes, and the first and the last window of every shard, which tells most files
// of another type or vocabulary. Errors: those of TokenShard; usage, naming file, field, value and
// what is allowed.
Result<std::shared_ptr<const SampleSource>> tokens_source(const JobSpec& spec,
                                                          const CapturedInputs& inputs);

// --- tokens/synthetic_tokens.cc

// REQUIRES: data.vocabulary >= 1.
std::shared_ptr<const SampleSource> synthetic_token_source(const DataSpec& spec);

// --- questions/squad_source.cc

// Error: as read_squad and BertVocabulary::read.
Result<std::shared_ptr<const SampleSource>> squad_source(const JobSpec& spec);

// --- questions/synthetic_questions.cc

// REQUIRES: data.tokens >= 8, data.vocabulary >= 16.
std::shared_ptr<const SampleSource> synthetic_question_source(const DataSpec& spec);

// --- ratings/ratings_source.cc

inline constexpr std::uint64_t kEvalGroup = 100;

// Error: as read_ratings and Interactions.
Result<std::shared_ptr<const SampleSource>> ratings_source(const JobSpec& spec);
std::shared_ptr<const SampleSource> synthetic_ratings_source(const DataSpec& spec);

// --- boxes/box_source.cc

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

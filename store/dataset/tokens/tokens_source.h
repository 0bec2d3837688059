#pragma once
// Samples in token files, for language models from model files.
//
// The shards (token_shard.h) of the training are the files of DIRECTORY/train, in the order of the
// bytes of their names, and those of the evaluation are in DIRECTORY/eval; or they are
// DIRECTORY/train.bin and DIRECTORY/val.bin. Without "eval" or "val.bin" there are no evaluation
// samples.
//
// The model has two inputs i32 [T]: the labels are the one called "labels" or "label", otherwise
// the second, and the ids are the other one. It may have two more of this shape, "position_ids" and
// "segment_ids". Sample i of a shard is a window: ids are the tokens iT
// to iT + T - 1, and labels the same tokens (data.shifted = false) or those one place later. A
// window lies in one shard; the tokens after the last whole window of a shard, at most T, are not
// used. Samples are numbered through all shards.
//
// With data.document_end = E a document ends behind every token E, and at the ends of a window. The
// segment of a token is the number of its document in the window, and its position the number of
// tokens before it in its document and window. Without E a window is one document. A label is -100,
// which the loss ignores, if the token before it is E: no document says how the next one begins.
#include <memory>

#include "store/dataset/captured_inputs.h"
#include "store/dataset/sample_source.h"

namespace es::store {

// Reads headers and sizes, and the first and the last window of every shard, which tells most files
// of another type or vocabulary. Errors: those of TokenShard; usage, naming file, field, value and
// what is allowed.
Result<std::shared_ptr<const SampleSource>> tokens_source(const JobSpec& spec,
                                                          const CapturedInputs& inputs);

}  // namespace es::store

#pragma once
// Samples of question answering from DIR/train-v1.1.json and DIR/dev-v1.1.json (squad_reader.h),
// with the WordPiece vocabulary of data.vocabulary_file.
//
// Let T = data.tokens. A question keeps its first min(64, T / 3) tokens. Its context is cut into
// windows of as many tokens as remain; each window begins T / 3 tokens after the previous one (the
// published stride is 128 of 384), until a window reaches the end. Every window is a sample. The
// answer (in training the first one) is the tokens that have a byte in common with its text.
#include <memory>

#include "store/dataset/record_source.h"

namespace es::store {

// Error: as read_squad and BertVocabulary::read.
Result<std::shared_ptr<const SampleSource>> squad_source(const JobSpec& spec);

}  // namespace es::store

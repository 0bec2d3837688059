#pragma once
// Samples of question answering from DIR/train-v1.1.json and DIR/dev-v1.1.json (squad_reader.h)
// with the WordPiece vocabulary of data.vocabulary_file.
//
// With T = data.tokens: a question keeps its first min(64, T / 3) tokens; its context is cut into
// windows of the tokens that are left beside them, each beginning T / 3 tokens (the published
// stride: 128 of 384) after the one before, until one reaches the end. Every window is a sample.
// The answer (training: the first one given) is the tokens that share a character with its text.
#include <memory>

#include "store/dataset/record_source.h"

namespace es::store {

// Error: as read_squad and WordPiece::read.
Result<std::shared_ptr<const SampleSource>> squad_source(const JobSpec& spec);

}  // namespace es::store

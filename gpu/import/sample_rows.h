#pragma once
// Tells whether the rows of a loss belong to the samples of a mini-batch. Only then can the losses
// of an incomplete mini-batch be told from those of the samples that fill it up.
#include "proto/base/model_program.h"

namespace es::gpu {

// Returns whether each element of the node's inputs depends on one sample at most, and the elements
// of a sample are neighbours, in the order of the samples. A function of the kinds of nodes and of
// the extents that are written per sample; where it does not know a kind, it returns false.
// REQUIRES: check_program() accepts the program.
bool rows_are_of_samples(const ModelProgram& program, const ModelNode& loss);

// Returns whether an input of the node has several extents that grow with the mini-batch, such as
// the products of all pairs of samples, or depends on all samples of a mini-batch.
bool has_other_samples(const ModelProgram& program, const ModelNode& loss);

// Returns whether an element of a value is computed from a sum or mean, or another reduction, over
// the samples of a mini-batch. The running statistics of a batch norm are none in an evaluation.
bool depends_on_mini_batch(const ModelProgram& program, ValueId value);

}  // namespace es::gpu

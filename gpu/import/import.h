#pragma once
// The import turns a model that a user brings (ModelProgram) into a graph of the engine.
#include <cstdint>

#include "gpu/graph/graph.h"
#include "proto/base/model_program.h"
#include "proto/base/result.h"
#include "proto/base/sample_layout.h"

namespace es::gpu {

// Returns the fields of a sample, one for each input of the program, in its order. The extents of
// an input after the batch become height, width and channels of the field:
//   [B]         1, 1, 1
//   [B,t]       t, 1, 1
//   [B,t,d]     t, 1, d
//   [B,c,h,w]   h, w, c: a sample holds an image as [h,w,c]
//   [B,t,d...]  t, 1, the product of the others
// A bool is an integer in [0, 1]. REQUIRES: check_program() accepts the program.
SampleLayout program_layout(const ModelProgram& program);

// Returns the graph of the model for mini-batches of `batch` samples. Its parameters are in the
// order of their first use in any program, and then those that nothing uses; they have the names of
// the model.
// Outputs have the shapes of the program. REQUIRES: check_program() accepts the program.
// Error (usage): a batch size for which a shape does not fit, or nodes that the engine cannot
// execute; the text lists all of these.
Result<Graph> import_model(const ModelProgram& program, std::int64_t batch);

// The same of the first program alone, and without the optimizer that the model may bring
// (Graph::programs, Graph::updates).
Result<Graph> import_nodes(const ModelProgram& program, std::int64_t batch);

}  // namespace es::gpu

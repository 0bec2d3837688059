#pragma once
// The identity of a model: a digest of everything in it that a result may depend on.
#include "proto/base/digest.h"
#include "proto/base/model_program.h"

namespace es::store {

// XXH3-128 of a canonical form of the program. Its producer and the source lines of its nodes are
// left out, so that a model which is captured again elsewhere keeps its digest. The form is part of
// the format: it never changes for a program of format 1.
Digest model_digest(const ModelProgram& program);

}  // namespace es::store

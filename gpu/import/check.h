#pragma once
// Checks a program that comes from outside. What passes is safe to import: the import of a checked
// program reads nothing outside its arrays, and its memory is bounded by the size of the program.
#include <cstdint>

#include "proto/base/model_program.h"
#include "proto/base/result.h"

namespace es::gpu {

// Error (usage): the first violation, with the path of the field, the value found, and what is
// allowed, for example "nodes[17].inputs[1] = 99: allowed is a value that an earlier node writes".
// Shapes are checked at two batch sizes. A kind of node that no version of the engine knows is an
// error; one that this version cannot execute is an error of import_model() only.
Status check_program(const ModelProgram& program);

// Checks every shape at this batch size. REQUIRES: check_program() accepts the program; batch > 0.
Status check_shapes(const ModelProgram& program, std::int64_t batch);

// Checks everything but the updates and the further programs. Error (usage): as check_program().
Status check_with_loss(const ModelProgram& program);

// Checks everything but the loss, the updates and the further programs, with mini-batches of this
// size. REQUIRES: batch > 0. Error (usage): as check_program().
Status check_nodes(const ModelProgram& program, std::int64_t batch);

}  // namespace es::gpu

#pragma once
// Converts between a ModelProgram and the messages of proto/schema/model.capnp. Internal to this
// folder: the binary file and the JSON form share it.
#include "model.capnp.h"
#include "proto/base/model_program.h"
#include "proto/base/result.h"

namespace es::store {

// Reads a message from outside. Memory is proportional to the size of the message, if its reader
// has a traversal limit of that size. Error (usage): a format that this version does not know; a
// text that is no plain UTF-8 text of at most kModelTextMax bytes; an unknown type; too many
// extents; bytes that are no whole words; a damaged part. The text names `where`, the field and
// what is allowed.
Result<ModelProgram> program_of(wire::Model::Reader model, const std::string& where);

// REQUIRES: `model` is new.
void fill_message(wire::Model::Builder model, const ModelProgram& program);

}  // namespace es::store

#pragma once
// The JSON form of a model: the message of proto/schema/model.capnp as Cap'n Proto's JSON codec
// writes it. Bytes are in base64, and 64-bit integers may be numbers or texts.
#include <string>
#include <string_view>

#include "proto/base/model_program.h"
#include "proto/base/result.h"

namespace es::store {

// `where` names the text in errors. Errors (usage): no JSON, an unknown field, a value of another
// type; and those of decode_model about the fields.
Result<ModelProgram> model_from_json(std::string_view json, const std::string& where);

// model_from_json(model_to_json(p)) == p for every program that decode_model returns.
std::string model_to_json(const ModelProgram& program);

}  // namespace es::store

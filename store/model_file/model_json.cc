#include "store/model_file/model_json.h"

#include <capnp/compat/json.h>
#include <capnp/message.h>
#include <kj/exception.h>

#include "proto/base/text.h"
#include "store/model_file/model_wire.h"

namespace es::store {
namespace {

constexpr std::size_t kJsonNestingMax = 16;

void prepare(capnp::JsonCodec& codec) {
  codec.handleByAnnotation<wire::Model>();
  codec.setRejectUnknownFields(true);
  codec.setMaxNestingDepth(kJsonNestingMax);
  codec.setPrettyPrint(true);
}

}  // namespace

Result<ModelProgram> model_from_json(std::string_view json, const std::string& where) {
  capnp::MallocMessageBuilder message;
  try {
    capnp::JsonCodec codec;
    prepare(codec);
    codec.decode(kj::arrayPtr(json.data(), json.size()), message.initRoot<wire::Model>());
  } catch (const kj::Exception& error) {
    const kj::StringPtr text = error.getDescription();
    return usage_error(where + ": " + escaped({text.begin(), text.size()}) +
                       ": allowed is the JSON form of a model (docs/reference/model-file.md)");
  }
  return program_of(message.getRoot<wire::Model>().asReader(), where);
}

std::string model_to_json(const ModelProgram& program) {
  capnp::MallocMessageBuilder message;
  auto model = message.initRoot<wire::Model>();
  fill_message(model, program);
  capnp::JsonCodec codec;
  prepare(codec);
  const kj::String text = codec.encode(model.asReader());
  return {text.begin(), text.size()};
}

}  // namespace es::store

#pragma once
// Maps every schema struct that is a message of its own to its type number (proto/message_type.h).
#include "client.capnp.h"
#include "cluster.capnp.h"
#include "common.capnp.h"
#include "node.capnp.h"
#include "proto/msg.h"
#include "round.capnp.h"
#include "slice.capnp.h"
#include "step.capnp.h"
#include "trace.capnp.h"

namespace es {

#define ES_MESSAGE(Name, Number)                               \
  template <>                                                  \
  struct MessageTypeOf<wire::Name> {                           \
    static constexpr MessageType value = MessageType::k##Name; \
  };
ES_MESSAGES(ES_MESSAGE)
#undef ES_MESSAGE

}  // namespace es

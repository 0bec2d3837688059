#pragma once
// Lets Msg<T> travel between actors of one process, shared by reference and never serialised.
#include <caf/allowed_unsafe_message_type.hpp>

#include "proto/msg.h"

namespace caf {
template <class Schema>
struct allowed_unsafe_message_type<es::Msg<Schema>> : std::true_type {};
}  // namespace caf

#pragma once
// ErrorKind in messages: its number.
#include <cstdint>

#include "proto/base/result.h"

namespace es::actors {

constexpr std::uint8_t to_wire(ErrorKind kind) {
  return static_cast<std::uint8_t>(kind);
}

// A kind that this version does not know becomes a plain failure.
constexpr ErrorKind error_kind_from(std::uint8_t kind) {
  return kind <= to_wire(ErrorKind::kRefused) ? static_cast<ErrorKind>(kind) : ErrorKind::kFailure;
}

}  // namespace es::actors

#pragma once
// Result<T> contains a value or an Error. It is used for everything that can fail in a correct
// program, such as a missing file, a bad message or a lost connection. A condition that cannot be
// false in a correct program is an ES_CHECK (check.h).
//
// The message of an Error is one line for a person. It says what is wrong, where (file, field),
// which value was found, and what is allowed. The kind of an Error decides the exit code of the
// command line (docs/OPERATIONS.md).
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "proto/base/check.h"

namespace es {

enum class ErrorKind {
  kFailure,   // exit 1: the operation was attempted and failed
  kUsage,     // exit 2: the request itself is wrong (bad field, bad flag, bad file content)
  kNotFound,  // exit 3: the named job, file, checkpoint or node does not exist
  kRefused,   // exit 4: a correct request that is not allowed now (no capacity, occupied, fenced)
};

struct [[nodiscard]] Error {
  ErrorKind kind = ErrorKind::kFailure;
  std::string message;
};

// Exit code of a command that ends with an error of this kind.
constexpr int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kFailure:
      return 1;
    case ErrorKind::kUsage:
      return 2;
    case ErrorKind::kNotFound:
      return 3;
    case ErrorKind::kRefused:
      return 4;
  }
  return 1;
}

inline Error failure(std::string message) {
  return {ErrorKind::kFailure, std::move(message)};
}
inline Error usage_error(std::string message) {
  return {ErrorKind::kUsage, std::move(message)};
}
inline Error not_found(std::string message) {
  return {ErrorKind::kNotFound, std::move(message)};
}
inline Error refused(std::string message) {
  return {ErrorKind::kRefused, std::move(message)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok().
  T& value() & {
    ES_CHECK_MSG(ok(), error_text());
    return std::get<0>(state_);
  }
  const T& value() const& {
    ES_CHECK_MSG(ok(), error_text());
    return std::get<0>(state_);
  }
  T&& value() && {
    ES_CHECK_MSG(ok(), error_text());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok().
  const Error& error() const {
    ES_CHECK(!ok());
    return std::get<1>(state_);
  }

 private:
  std::string error_text() const { return ok() ? std::string() : std::get<1>(state_).message; }
  std::variant<T, Error> state_;
};

// The result of an operation that returns no value.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    ES_CHECK(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

// Returns from the enclosing function if `expr` has an error.
#define ES_RETURN_IF_ERROR(expr)                                               \
  do {                                                                         \
    if (auto es_status_ = (expr); !es_status_.ok()) return es_status_.error(); \
  } while (0)

}  // namespace es

#pragma once
// The kernel class for which a test program asks oneDNN. A process serves one class, so the same
// program runs once for each: ES_CPU_CLASS names it, and without it the widest of this machine is
// used.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "gpu/onednn/onednn.h"

namespace es::test {

inline CpuClass onednn_class() {
  const char* name = std::getenv("ES_CPU_CLASS");
  return name == nullptr ? supported_cpu_classes().back() : parse_cpu_class(name).value();
}

// Returns the library, or nullptr with a message: the test is skipped where this build has no
// oneDNN or this processor does not have the class.
inline const gpu::OnednnLibrary* onednn_or_skip() {
  const std::string name = device_type(onednn_class()).name;
  if (!cpu_supports(onednn_class())) {
    MESSAGE("skipped: this processor cannot execute ", name);
    return nullptr;
  }
  const auto library = gpu::open_onednn(onednn_class());
  REQUIRE_MESSAGE(library.ok(), library.error().message);
  if (*library == nullptr) MESSAGE("skipped: oneDNN is not available for ", name);
  return *library;
}

}  // namespace es::test

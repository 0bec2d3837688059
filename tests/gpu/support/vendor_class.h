#pragma once
// Which kernel class a test program asks the vendor library for. A process serves one, so the same
// program runs once for each: ES_CPU_CLASS names it, else it is the widest of this machine.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "gpu/onednn/onednn.h"

namespace es::test {

inline CpuClass vendor_class() {
  const char* name = std::getenv("ES_CPU_CLASS");
  return name == nullptr ? supported_cpu_classes().back() : parse_cpu_class(name).value();
}

// The library, or nullptr with a message: the test is to be skipped where this build has no library
// or this processor does not have the class.
inline const gpu::VendorLibrary* vendor_library_or_skip() {
  const std::string name = device_type(vendor_class()).name;
  if (!cpu_supports(vendor_class())) {
    MESSAGE("skipped: this processor cannot execute ", name);
    return nullptr;
  }
  const auto library = gpu::vendor_library(vendor_class());
  REQUIRE_MESSAGE(library.ok(), library.error().message);
  if (*library == nullptr) MESSAGE("skipped: no vendor library for ", name);
  return *library;
}

}  // namespace es::test

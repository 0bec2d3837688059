#pragma once
// The kernel class for which a test program loads the vendor library. A process loads one, so the
// same program runs once for each class: ES_CPU_CLASS names it, and the default is the widest class
// of this machine.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "gpu/onednn/onednn.h"

namespace es::test {

inline CpuClass vendor_class() {
  const char* name = std::getenv("ES_CPU_CLASS");
  return name == nullptr ? supported_cpu_classes().back() : parse_cpu_class(name).value();
}

// Returns the library, or nullptr with a message if this build has no library or this processor
// lacks the class. The test is skipped then.
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

#pragma once
// KernelAgreement holds with which kernels the workers of a job compute, as each says it in its
// Hello. At D0 and D1 the bits belong to a device type and to kernels of libraries, so all workers
// of one type must have the same ones; otherwise the result would depend on the placement. At D2
// the texts of all workers are equal. Pure; not thread-safe.
#include <map>
#include <string>

#include "proto/base/device.h"
#include "proto/base/result.h"

namespace es::actors::intra_job {

class KernelAgreement {
 public:
  // Error (refused): this worker cannot compute with the others of its type; the first line that
  // differs is said.
  Status check(const DeviceType& type, const std::string& kernels) const;
  // A worker computes with these kernels. REQUIRES: check() is ok.
  void add(const DeviceType& type, const std::string& kernels) { kernels_[type] = kernels; }

 private:
  std::map<DeviceType, std::string> kernels_;
};

}  // namespace es::actors::intra_job

#include "store/dataset/python/shared_samples.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <system_error>

namespace es::store {

Result<std::unique_ptr<SharedSamples>> SharedSamples::create(std::uint32_t samples,
                                                             std::size_t sample_bytes) {
  const int descriptor = ::memfd_create("es.samples", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  std::unique_ptr<SharedSamples> memory(new SharedSamples(descriptor, samples, sample_bytes));
  ES_RETURN_IF_ERROR(memory->map());
  return memory;
}

Status SharedSamples::map() {
  void* mapped = MAP_FAILED;
  if (descriptor_.get() >= 0 && ::ftruncate(descriptor_.get(), static_cast<off_t>(bytes())) == 0 &&
      ::fcntl(descriptor_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    mapped = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), 0);
  if (mapped == MAP_FAILED)
    return failure("memory for samples, " + std::to_string(bytes()) +
                   " bytes: " + std::generic_category().message(errno));
  memory_ = static_cast<std::uint8_t*>(mapped);
  return {};
}

SharedSamples::~SharedSamples() {
  if (memory_ != nullptr) ::munmap(memory_, bytes());
}

}  // namespace es::store

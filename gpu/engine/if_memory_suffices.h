#pragma once
// An engine that does not fit into the memory is an error for the user, not for the program.
#include <new>
#include <string>

#include "gpu/base/aligned_buffer.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::gpu {

// Returns what make() returns, or an error if memory runs out. NoMemory comes from the large
// buffers. A plain bad_alloc comes from the small allocations beside them or from a vendor library.
template <class Make>
auto if_memory_suffices(const JobSpec& spec, Make make) -> decltype(make()) {
  const std::string model =
      "model " + model_text(spec.model) + ", batch_size " + std::to_string(spec.batch_size) + ": ";
  try {
    return make();
  } catch (const NoMemory& missing) {
    return failure(model + missing.what());
  } catch (const std::bad_alloc&) {
    return failure(model + "not enough memory for its graph and tables");
  }
}

}  // namespace es::gpu

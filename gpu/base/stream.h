#pragma once
// Stream names a queue of work on a device.

namespace es::gpu::cuda {

// On a GPU it is a cudaStream_t, on the host a HostQueue (gpu/cuda/launch_host.h).
struct Stream {
  void* handle = nullptr;
};

}  // namespace es::gpu::cuda

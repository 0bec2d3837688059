#pragma once
// Device: the memory, streams and errors of one GPU, behind an interface that host memory can
// implement too (for tests and for machines without a GPU).
//
// Threads: one at a time. Memory: what allocate() and allocate_host() return lives as long as the
// Device. Errors: values that contain the failed call and its place in the source. An error of
// queued work appears at the next check() or synchronise(). After it the device is lost: every
// later call returns the error again.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "gpu/cuda/block.h"
#include "gpu/cuda/device_tables.h"
#include "proto/base/device.h"
#include "proto/base/result.h"

namespace es::gpu::cuda {

// The device type of open_host_device(): the program of the CUDA device on the host. It is for
// tests. Devices of this type exist only where a configuration names them.
inline const DeviceType kHostStandIn{"cuda-host"};

// A point in a stream. Another stream or the host can wait() for it.
struct Event {
  void* handle = nullptr;
};

// Recorded work that can be launched as one unit any number of times. A CUDA graph.
struct Recording {
  void* handle = nullptr;
};

inline std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceKernels& kernels() const = 0;
  virtual std::string name() const = 0;  // for example "NVIDIA H200" or "host"
  virtual DeviceType type() const = 0;   // for example "cuda-sm90-h200" or "cuda-host"
  // The number of its multiprocessors, which a part of a GPU (MIG) has fewer of; 0: it is no GPU.
  virtual int multiprocessors() const { return 0; }

  // Makes this device the current device of the calling thread. A thread calls it before it does
  // anything else with the device.
  virtual Status begin() = 0;

  // Allocates device memory, aligned to 256 bytes, with arbitrary contents. `what` completes the
  // text "no memory for ...".
  virtual Result<void*> allocate(std::size_t bytes, const std::string& what) = 0;
  // Allocates pinned host memory. Copies between it and the device run concurrently with
  // computation.
  virtual Result<void*> allocate_host(std::size_t bytes, const std::string& what) = 0;

  // Pins this host memory: from now on copies from it run concurrently with computation, like those
  // from memory of allocate_host(). `owner` keeps the memory alive and is released at the end of
  // the Device. Returns false, and changes nothing, if this is not possible here.
  virtual bool pin(std::span<const std::byte>, std::shared_ptr<const void> /*owner*/) {
    return false;
  }

  // Returns the number of bytes that may be allocated for optional purposes. On a GPU that excludes
  // the last part of the memory, which libraries and channels need later. allocate() may still
  // fail.
  virtual std::size_t spare_bytes() { return SIZE_MAX; }

  virtual Result<Stream> make_stream() = 0;
  virtual Result<Event> make_event() = 0;

  // --- Queued work. The host side of a copy must not change until the copy is done.
  virtual void copy_in(Stream, void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_out(Stream, void* host, const void* device, std::size_t bytes) = 0;
  // Within device memory.
  virtual void copy(Stream, void* to, const void* from, std::size_t bytes) = 0;
  // The event marks everything that is queued on the stream so far.
  virtual void record(Event, Stream) = 0;
  virtual void wait(Stream, Event) = 0;  // what is queued from now on runs after the event

  // --- Recording. Everything that `queue` queues on the stream is recorded and not executed.
  // `queue` must not queue on another stream and must not wait. Arguments are recorded with their
  // current values, so what changes from launch to launch must come from device memory. The
  // recording lives as long as the device. Error (failure): this work cannot be recorded here.
  // Nothing has been queued then, and the device works as before.
  virtual Result<Recording> record_work(Stream, const std::function<void()>& queue) = 0;
  virtual void launch(Stream, Recording) = 0;

  // --- Calls in which the host waits.
  virtual Status synchronise(Stream) = 0;
  virtual Status synchronise(Event) = 0;
  virtual Status check() = 0;  // returns the first error so far; does not wait
  // Reports an error of a library's work on this device. From now on the device is lost.
  virtual void lose(const Error& error) = 0;
  // Calls a library that works on this device. All calls of such libraries go through this
  // function. A CUDA error that the call leaves behind, even though the call may have succeeded,
  // belongs to the library and is cleared. No error of the device is lost by this: earlier errors
  // were recorded, and an error that has ended the device is returned again by every later call.
  // Returns what `call` returns.
  virtual Status call_library(const std::function<Status()>& call) { return call(); }
};

// Opens GPU `index` of this process (cuda_inventory.h). Error (failure): there is no driver, or no
// such device.
Result<std::unique_ptr<Device>> open_gpu(int index);
// Opens a device that consists of host memory and host_kernels().
std::unique_ptr<Device> open_host_device();

}  // namespace es::gpu::cuda

// Sets `target` to the value of `expr`, or returns its error.
#define ES_SET(target, expr)                    \
  do {                                          \
    auto es_result_ = (expr);                   \
    if (!es_result_) return es_result_.error(); \
    target = *std::move(es_result_);            \
  } while (0)

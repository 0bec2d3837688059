#pragma once
// Device: the memory, streams and errors of one GPU, behind an interface that host memory can stand
// in for (tests, machines without GPU).
//
// Threads: one at a time. Memory: what allocate() and allocate_host() give lives as long as the
// Device. Errors: values, with the call that failed and where it was made. An error of queued work
// appears at the next check() or synchronise(); after it the device is lost: every later call
// returns it again.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "gpu/cuda/block.h"
#include "gpu/cuda/device_kernels.h"
#include "proto/base/device.h"
#include "proto/base/result.h"

namespace es::gpu::cuda {

// The type of open_host_device(): the CUDA device's program on the host. For tests; devices of this
// type exist only where a configuration names them.
inline const DeviceType kHostStandIn{"cuda-host"};

// Something that has been queued; wait() for it from another stream or the host.
struct Event {
  void* handle = nullptr;
};

// Queued work that was recorded: launched as one, as often as wanted. A CUDA graph.
struct Recording {
  void* handle = nullptr;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceKernels& kernels() const = 0;
  virtual std::string name() const = 0;  // "NVIDIA H200", "host"
  virtual DeviceType type() const = 0;   // "cuda-sm90-h200", "cuda-host"

  // The calling thread goes on with this device: before anything else that it does with it.
  virtual Status begin() = 0;

  // Device memory, 256-byte aligned; content arbitrary. `what` completes "no memory for ...".
  virtual Result<void*> allocate(std::size_t bytes, const std::string& what) = 0;
  // Host memory that copies to and from the device run beside computing (pinned).
  virtual Result<void*> allocate_host(std::size_t bytes, const std::string& what) = 0;

  // From now on copies from this host memory run beside computing, as those from allocate_host()'s
  // do. `owner` keeps it and is let go of by the Device's end. False: not possible here, nothing
  // has changed.
  virtual bool pin(std::span<const std::byte>, std::shared_ptr<const void> /*owner*/) {
    return false;
  }

  // What may be allocated though one could do without it: on a GPU not the last of its memory,
  // which libraries and channels take later. At most this; allocate() may fail all the same.
  virtual std::size_t spare_bytes() { return SIZE_MAX; }

  virtual Result<Stream> make_stream() = 0;
  virtual Result<Event> make_event() = 0;

  // --- Queued. The host side of a copy must stay as it is until the copy is done.
  virtual void copy_in(Stream, void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_out(Stream, void* host, const void* device, std::size_t bytes) = 0;
  virtual void copy(Stream, void* to, const void* from, std::size_t bytes) = 0;  // in device memory
  virtual void record(Event, Stream) = 0;  // the event: all that is queued on the stream so far
  virtual void wait(Stream, Event) = 0;    // what is queued from now on comes after the event

  // --- Recording. What `queue` queues on the stream is kept and not done; it queues on no other
  // stream and waits for nothing. Arguments are kept as they are: what shall differ from launch to
  // launch comes from device memory. The recording lives as long as the device. Error (failure):
  // this work cannot be recorded here; nothing has been queued, and the device works as before.
  virtual Result<Recording> record_work(Stream, const std::function<void()>& queue) = 0;
  virtual void launch(Stream, Recording) = 0;

  // --- The host waits.
  virtual Status synchronise(Stream) = 0;
  virtual Status synchronise(Event) = 0;
  virtual Status check() = 0;  // the first error so far; waits for nothing
  // What a library has to report of its work on this device: from now on the device is lost.
  virtual void lose(const Error& error) = 0;
  // Calls a library that works on this device, as all such calls are made: an error that the call
  // leaves behind, though it may have succeeded, is the library's own and is forgotten. Of the
  // device's own errors none is lost by it: those before were noted, and one that has ended the
  // device comes back with every later call. Returns what `call` returns.
  virtual Status call_library(const std::function<Status()>& call) { return call(); }
};

// GPU `index` of this process (cuda_inventory.h). Error (failure): no driver, no such device.
Result<std::unique_ptr<Device>> open_gpu(int index);
// Host memory and host_kernels().
std::unique_ptr<Device> open_host_device();

}  // namespace es::gpu::cuda

// Sets `target` to what `expr` gives, or returns its error.
#define ES_SET(target, expr)                    \
  do {                                          \
    auto es_result_ = (expr);                   \
    if (!es_result_) return es_result_.error(); \
    target = *std::move(es_result_);            \
  } while (0)

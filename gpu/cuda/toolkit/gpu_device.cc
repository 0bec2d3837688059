// A GPU behind the interface Device. Apart from missing memory, the first error of a call makes the
// device lost: lose() records it, and check() returns it from then on. Calls that queue work return
// nothing, so their errors appear at the next check() or synchronise().
#include <cuda_runtime_api.h>

#include <optional>
#include <string_view>
#include <vector>

#include "gpu/cuda/cuda_inventory.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/toolkit/launches.h"

namespace es::gpu::cuda {
namespace {

// The place of a call in the source, for its error.
struct Site {
  const char* call;
  std::string_view file;
  int line;
};
#define ES_HERE(call)        \
  Site {                     \
    call, __FILE__, __LINE__ \
  }

Error cuda_error(cudaError_t code, const std::string& device, const Site& site) {
  // __FILE__ is relative to the build directory
  const std::size_t up = site.file.find_first_not_of("./");
  return failure(device + ": " + site.call + ": " + cudaGetErrorString(code) + " (" +
                 std::string(site.file.substr(up)) + ":" + std::to_string(site.line) + ")");
}

cudaStream_t native(Stream stream) {
  return static_cast<cudaStream_t>(stream.handle);
}
cudaEvent_t native(Event event) {
  return static_cast<cudaEvent_t>(event.handle);
}

class GpuDevice final : public Device {
 public:
  GpuDevice(int index, const CudaDevice& properties)
      : index_(index),
        name_(properties.name),
        type_(properties.type()),
        text_("GPU " + std::to_string(index) + " (" + properties.name + ")"),
        multiprocessors_(properties.multiprocessors) {}

  // Errors are ignored: a lost device has nothing to free.
  ~GpuDevice() override {
    // The thread that destroys the device may have used another one before.
    cudaSetDevice(index_);
    // Work that is queued ahead may still read the memory that is freed and unpinned below.
    cudaDeviceSynchronize();
    for (const cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
    for (const cudaStream_t stream : streams_) cudaStreamDestroy(stream);
    // The memory is unpinned before its owner, a member of `pinned`, can free it.
    for (const Pinned& pinned : pinned_) cudaHostUnregister(pinned.memory);
    for (void* const memory : host_memory_) cudaFreeHost(memory);
    for (void* const memory : memory_) cudaFree(memory);
  }

  const DeviceKernels& kernels() const override { return gpu_kernels(); }
  std::string name() const override { return name_; }
  DeviceType type() const override { return type_; }
  int multiprocessors() const override { return multiprocessors_; }
  Status begin() override {
    note(cudaSetDevice(index_), ES_HERE("cudaSetDevice"));
    return check();
  }

  // Error (failure): this build has no code for the GPU, or the driver cannot load it.
  Status load() {
    const std::optional<LaunchError> error = load_kernels();
    if (!error) return {};
    return failed(error->code, ES_HERE(("loading " + error->kernel).c_str()));
  }

  Result<void*> allocate(std::size_t bytes, const std::string& what) override {
    ES_RETURN_IF_ERROR(check());
    void* memory = nullptr;
    const cudaError_t code = cudaMalloc(&memory, bytes);
    // Missing memory is an ordinary result, because optional memory can be done without. Every
    // other error means that the device is lost.
    if (code == cudaErrorMemoryAllocation) return no_memory(bytes, what);
    if (code != cudaSuccess) return failed(code, ES_HERE("cudaMalloc"));
    memory_.push_back(memory);
    return memory;
  }

  std::size_t spare_bytes() override {
    // Libraries and channels allocate memory of their own later (docs/reference/cuda-device.md).
    constexpr std::size_t kReserveBytes = std::size_t{512} << 20;
    std::size_t free = 0, all = 0;
    note(cudaMemGetInfo(&free, &all), ES_HERE("cudaMemGetInfo"));
    return free > kReserveBytes ? free - kReserveBytes : 0;
  }

  Result<void*> allocate_host(std::size_t bytes, const std::string& what) override {
    ES_RETURN_IF_ERROR(check());
    void* memory = nullptr;
    const cudaError_t code = cudaMallocHost(&memory, bytes);
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // clears the error: the device still works
      return failure("not enough pinned host memory for " + what + ": " + std::to_string(bytes) +
                     " bytes are wanted");
    }
    if (code != cudaSuccess) return failed(code, ES_HERE("cudaMallocHost"));
    host_memory_.push_back(memory);
    return memory;
  }

  bool pin(std::span<const std::byte> memory, std::shared_ptr<const void> owner) override {
    if (!check().ok()) return false;
    void* const begin = const_cast<std::byte*>(memory.data());
    if (cudaHostRegister(begin, memory.size(), cudaHostRegisterDefault) != cudaSuccess) {
      cudaGetLastError();  // clears the error: the device still works
      return false;
    }
    pinned_.push_back({begin, std::move(owner)});
    return true;
  }

  Result<Stream> make_stream() override {
    ES_RETURN_IF_ERROR(check());
    cudaStream_t stream = nullptr;
    // A non-blocking stream does not synchronise with the default stream of CUDA, so work that is
    // queued there by others does not delay it.
    const cudaError_t code = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (code != cudaSuccess) return failed(code, ES_HERE("cudaStreamCreateWithFlags"));
    streams_.push_back(stream);
    return Stream{stream};
  }

  Result<Event> make_event() override {
    ES_RETURN_IF_ERROR(check());
    cudaEvent_t event = nullptr;
    // Events without times are cheaper, and no time is read from them.
    const cudaError_t code = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (code != cudaSuccess) return failed(code, ES_HERE("cudaEventCreateWithFlags"));
    events_.push_back(event);
    return Event{event};
  }

  void copy_in(Stream stream, void* device, const void* host, std::size_t bytes) override {
    queue_copy(stream, device, host, bytes, cudaMemcpyHostToDevice);
  }
  void copy_out(Stream stream, void* host, const void* device, std::size_t bytes) override {
    queue_copy(stream, host, device, bytes, cudaMemcpyDeviceToHost);
  }
  void copy(Stream stream, void* to, const void* from, std::size_t bytes) override {
    queue_copy(stream, to, from, bytes, cudaMemcpyDeviceToDevice);
  }
  void record(Event event, Stream stream) override {
    note(cudaEventRecord(native(event), native(stream)), ES_HERE("cudaEventRecord"));
  }
  void wait(Stream stream, Event event) override {
    note(cudaStreamWaitEvent(native(stream), native(event), 0), ES_HERE("cudaStreamWaitEvent"));
  }

  Result<Recording> record_work(Stream stream, const std::function<void()>& queue) override {
    ES_RETURN_IF_ERROR(check());
    // From here on, errors belong to the recording and do not end the device.
    recording_ = true;
    // ThreadLocal: other threads of the process may call CUDA meanwhile.
    note(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal),
         ES_HERE("cudaStreamBeginCapture"));
    if (!cannot_record_) queue();
    const Result<cudaGraphExec_t> graph = end_recording(stream);
    recording_ = false;
    cannot_record_.reset();
    if (!graph) return graph.error();
    graphs_.push_back(*graph);
    return Recording{*graph};
  }
  void launch(Stream stream, Recording recording) override {
    note(cudaGraphLaunch(static_cast<cudaGraphExec_t>(recording.handle), native(stream)),
         ES_HERE("cudaGraphLaunch"));
  }

  Status synchronise(Stream stream) override {
    note(cudaStreamSynchronize(native(stream)), ES_HERE("cudaStreamSynchronize"));
    return check();
  }
  Status synchronise(Event event) override {
    note(cudaEventSynchronize(native(event)), ES_HERE("cudaEventSynchronize"));
    return check();
  }
  Status check() override {
    note_launches();
    return lost_ ? Status(*lost_) : Status();
  }
  // Work that fails while it is recorded was not executed, so the device is not lost by it.
  void lose(const Error& error) override {
    std::optional<Error>& first = recording_ ? cannot_record_ : lost_;
    if (!first) first = error;
  }
  Status call_library(const std::function<Status()>& call) override {
    note_launches();
    const Status done = call();
    cudaGetLastError();  // clears the error, which belongs to the library
    return done;
  }

 private:
  struct Pinned {
    void* memory;
    std::shared_ptr<const void> owner;
  };

  void queue_copy(Stream stream, void* to, const void* from, std::size_t bytes,
                  cudaMemcpyKind kind) {
    // A model may have no statistics, for example, and then there is nothing to copy.
    if (bytes == 0) return;
    note(cudaMemcpyAsync(to, from, bytes, kind, native(stream)), ES_HERE("cudaMemcpyAsync"));
  }

  // Ends the capture. This is necessary even if something has failed during it.
  Result<cudaGraphExec_t> end_recording(Stream stream) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t launched = nullptr;
    note(cudaStreamEndCapture(native(stream), &graph), ES_HERE("cudaStreamEndCapture"));
    note_launches();
    if (!cannot_record_)
      note(cudaGraphInstantiateWithFlags(&launched, graph, 0),
           ES_HERE("cudaGraphInstantiateWithFlags"));
    // Only the executable form of the graph is launched.
    if (graph != nullptr) cudaGraphDestroy(graph);
    if (!cannot_record_) return launched;
    cudaGetLastError();  // clears the error: the device still works
    return *cannot_record_;
  }

  // Records errors of launches and of the kernels themselves.
  void note_launches() {
    const std::optional<LaunchError> failed = take_failed_launch();
    if (failed)
      lose(cuda_error(failed->code, text_, ES_HERE(("launching " + failed->kernel).c_str())));
    note(cudaGetLastError(), ES_HERE("a kernel"));
  }

  Error failed(cudaError_t code, const Site& site) {
    lose(cuda_error(code, text_, site));
    return *lost_;
  }
  void note(cudaError_t code, const Site& site) {
    if (code != cudaSuccess) lose(cuda_error(code, text_, site));
  }

  Error no_memory(std::size_t bytes, const std::string& what) const {
    cudaGetLastError();  // clears the error: the device still works
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return failure("not enough memory on " + text_ + " for " + what + ": " + std::to_string(bytes) +
                   " bytes are wanted, " + std::to_string(free) + " of " + std::to_string(total) +
                   " are free");
  }

  const int index_;
  const std::string name_;
  const DeviceType type_;
  const std::string text_;
  const int multiprocessors_;
  std::optional<Error> lost_;  // the first error; every later call returns it
  bool recording_ = false;
  std::optional<Error> cannot_record_;  // the first error of a recording
  std::vector<void*> memory_, host_memory_;
  std::vector<Pinned> pinned_;
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
  std::vector<cudaGraphExec_t> graphs_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_gpu(int index) {
  const CudaInventory inventory = cuda_inventory();
  const std::string gpu = "GPU " + std::to_string(index) + ": ";
  if (inventory.devices.empty()) return failure(gpu + inventory.why_none);
  if (index < 0 || static_cast<std::size_t>(index) >= inventory.devices.size())
    return failure(gpu + "this process sees " + std::to_string(inventory.devices.size()));
  auto device =
      std::make_unique<GpuDevice>(index, inventory.devices[static_cast<std::size_t>(index)]);
  ES_RETURN_IF_ERROR(device->begin());
  ES_RETURN_IF_ERROR(device->load());
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace es::gpu::cuda

// Channels by NCCL: communicators of two, which never block the host.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "gpu/cuda/channel.h"
#include "gpu/cuda/toolkit/shared_library.h"

namespace es::gpu::cuda {
namespace {

struct Functions {
  explicit Functions(SharedLibrary& library)
      : version(ES_FUNCTION(library, ncclGetVersion)),
        unique_id(ES_FUNCTION(library, ncclGetUniqueId)),
        init(ES_FUNCTION(library, ncclCommInitRankConfig)),
        async_error(ES_FUNCTION(library, ncclCommGetAsyncError)),
        abort(ES_FUNCTION(library, ncclCommAbort)),
        send(ES_FUNCTION(library, ncclSend)),
        recv(ES_FUNCTION(library, ncclRecv)),
        text(ES_FUNCTION(library, ncclGetErrorString)) {}

  decltype(&ncclGetVersion) version;
  decltype(&ncclGetUniqueId) unique_id;
  decltype(&ncclCommInitRankConfig) init;
  decltype(&ncclCommGetAsyncError) async_error;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  decltype(&ncclGetErrorString) text;
};

// Clears the CUDA error that a call of NCCL may leave behind even if the call succeeded. It belongs
// to NCCL and would otherwise count as an error of the device (Device::call_library()). Used after
// each call of NCCL.
void forget_errors() {
  cudaGetLastError();
}

Error cuda_failure(cudaError_t code, const char* call) {
  return failure(std::string("channel: ") + call + ": " + cudaGetErrorString(code));
}

class NcclChannel final : public Channel {
 public:
  NcclChannel(const Functions& functions, ChannelEnd end) : f(functions), end_(end) {}
  ~NcclChannel() override {
    abort();
    if (moved_ != nullptr) cudaEventDestroy(moved_);
  }

  Status open(const ncclUniqueId& id) {
    const cudaError_t made = cudaEventCreateWithFlags(&moved_, cudaEventDisableTiming);
    if (made != cudaSuccess) return cuda_failure(made, "cudaEventCreateWithFlags");
    const cudaError_t found = cudaGetDevice(&device_);
    if (found != cudaSuccess) return cuda_failure(found, "cudaGetDevice");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    // No call may wait for the peer (channel.h). poll() asks for the state instead.
    config.blocking = 0;
    config.minCTAs = 1;
    config.maxCTAs = kTransferBlocks;
    note(f.init(&communicator_, 2, id, rank(end_), &config), "ncclCommInitRankConfig");
    return error_ ? Status(*error_) : Status();
  }

  Result<State> poll() override {
    if (communicator_ == nullptr) return failure("channel: it was given up");
    ncclResult_t state = ncclSuccess;
    note(f.async_error(communicator_, &state), "ncclCommGetAsyncError");
    note(state, "NCCL");
    if (error_) return *error_;
    // Before the first transfer the communicator is still being connected. Later, a call that has
    // not finished belongs to a transfer.
    if (state == ncclInProgress) return step_ == Step::kNone ? State::kOpening : State::kBusy;
    return look_at_transfer();
  }

  void begin(Stream stream, void* memory, std::size_t bytes) override {
    stream_ = static_cast<cudaStream_t>(stream.handle);
    const int peer = 1 - rank(end_);
    note(end_ == ChannelEnd::kSender
             ? f.send(memory, bytes, ncclUint8, peer, communicator_, stream_)
             : f.recv(memory, bytes, ncclUint8, peer, communicator_, stream_),
         end_ == ChannelEnd::kSender ? "ncclSend" : "ncclRecv");
    step_ = Step::kCalled;
  }

  // NcclCommAbort ends the running kernel and waits for it and for its own threads. Therefore it
  // runs on a thread of its own.
  void abort() override {
    const ncclComm_t communicator = std::exchange(communicator_, nullptr);
    if (communicator == nullptr) return;
    // The flag is shared with the thread, because the channel may be destroyed before the thread
    // ends.
    *released_ = false;
    std::thread([abort = f.abort, communicator, released = released_, device = device_] {
      cudaSetDevice(device);  // otherwise the thread would use the first GPU of the machine
      abort(communicator);
      *released = true;
    }).detach();
  }
  // A kernel that was told to end may still be on the stream.
  bool released() const override {
    if (!*released_) return false;
    if (stream_ == nullptr) return true;
    const bool running = cudaStreamQuery(stream_) == cudaErrorNotReady;
    cudaGetLastError();  // clears the error: errors of the stream no longer concern the channel
    return !running;
  }

 private:
  // A call that does not block returns before its kernel is on the stream. An event can be recorded
  // behind the kernel only after that.
  enum class Step { kNone, kCalled, kQueued };

  static int rank(ChannelEnd end) { return end == ChannelEnd::kSender ? 0 : 1; }

  Result<State> look_at_transfer() {
    if (step_ == Step::kCalled) {
      const cudaError_t code = cudaEventRecord(moved_, stream_);
      if (code != cudaSuccess) return cuda_failure(code, "cudaEventRecord");
      step_ = Step::kQueued;
    }
    if (step_ == Step::kQueued) {
      const cudaError_t code = cudaEventQuery(moved_);
      if (code == cudaErrorNotReady) {
        cudaGetLastError();  // clears the error: cudaErrorNotReady is not a failure
        return State::kBusy;
      }
      if (code != cudaSuccess) return cuda_failure(code, "cudaEventQuery");
      step_ = Step::kNone;
    }
    return State::kIdle;
  }

  void note(ncclResult_t code, const char* call) {
    forget_errors();
    if (code == ncclSuccess || code == ncclInProgress || error_) return;
    error_ = failure(std::string("channel: ") + call + ": " + f.text(code));
  }

  const Functions f;
  ChannelEnd end_;
  int device_ = 0;
  ncclComm_t communicator_ = nullptr;
  cudaEvent_t moved_ = nullptr;
  cudaStream_t stream_ = nullptr;
  Step step_ = Step::kNone;
  std::optional<Error> error_;
  std::shared_ptr<std::atomic<bool>> released_ = std::make_shared<std::atomic<bool>>(true);
};

std::string hexadecimal(const cudaUUID_t& uuid) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : uuid.bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

class Nccl final : public ChannelLibrary {
 public:
  explicit Nccl(SharedLibrary& library) : f(library) {}

  Status start(int gpu_index) {
    int number = 0;
    const ncclResult_t known = f.version(&number);
    forget_errors();
    if (known != ncclSuccess) return failure(std::string("ncclGetVersion: ") + f.text(known));
    kind_ = "nccl " + std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) +
            "." + std::to_string(number % 100);
    cudaDeviceProp properties{};
    const cudaError_t code = cudaGetDeviceProperties(&properties, gpu_index);
    if (code != cudaSuccess) return cuda_failure(code, "cudaGetDeviceProperties");
    device_ = "GPU-" + hexadecimal(properties.uuid);
    channels_max_ = channels_each_way(properties.multiProcessorCount);
    return {};
  }

  std::string kind() const override { return kind_; }
  std::string device() const override { return device_; }
  std::size_t channels_max() const override { return channels_max_; }
  Result<std::string> make_id() override {
    ncclUniqueId id{};
    const ncclResult_t code = f.unique_id(&id);
    forget_errors();
    if (code != ncclSuccess) return failure(std::string("ncclGetUniqueId: ") + f.text(code));
    return std::string(id.internal, sizeof(id.internal));
  }
  Result<std::unique_ptr<Channel>> open(ChannelEnd end, const std::string& id) override {
    ncclUniqueId unique{};
    if (id.size() != sizeof(unique.internal))
      return failure("channel: an id of " + std::to_string(id.size()) + " bytes, NCCL's have " +
                     std::to_string(sizeof(unique.internal)));
    std::memcpy(unique.internal, id.data(), id.size());
    auto channel = std::make_unique<NcclChannel>(f, end);
    ES_RETURN_IF_ERROR(channel->open(unique));
    return std::unique_ptr<Channel>(std::move(channel));
  }

 private:
  const Functions f;
  std::string kind_, device_;
  std::size_t channels_max_ = 1;
};

}  // namespace

Result<std::unique_ptr<ChannelLibrary>> open_nccl(Device& device, int gpu_index) {
  SharedLibrary library("libnccl.so." + std::to_string(NCCL_MAJOR));
  if (!library.installed()) return std::unique_ptr<ChannelLibrary>();
  ES_RETURN_IF_ERROR(device.begin());
  auto nccl = std::make_unique<Nccl>(library);
  // A library of another version may lack a function. That is an error, unlike a missing library.
  ES_RETURN_IF_ERROR(library.complete());
  ES_RETURN_IF_ERROR(nccl->start(gpu_index));
  return std::unique_ptr<ChannelLibrary>(std::move(nccl));
}

}  // namespace es::gpu::cuda

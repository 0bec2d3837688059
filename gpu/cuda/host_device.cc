// Host memory in place of a GPU. Every call does its work at once, or records it.
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "gpu/cuda/device.h"
#include "gpu/cuda/launch_host.h"

namespace es::gpu::cuda {
namespace {

// Device::allocate() promises this alignment, and kernels load packs of floats.
constexpr std::align_val_t kAlignment{256};

struct Free {
  void operator()(std::byte* p) const { ::operator delete(p, kAlignment); }
};

using Work = std::vector<std::function<void()>>;

// Executes work at once, or records it.
class HostStream final : public HostQueue {
 public:
  void add(std::function<void()> work) override {
    if (recording_ == nullptr) return work();
    recording_->push_back(std::move(work));
  }
  void record_to(Work* recording) { recording_ = recording; }

 private:
  Work* recording_ = nullptr;
};

HostStream& native(Stream stream) {
  return *static_cast<HostStream*>(stream.handle);
}

class HostDevice final : public Device {
 public:
  const DeviceKernels& kernels() const override { return host_kernels(); }
  std::string name() const override { return "host"; }
  DeviceType type() const override { return kHostStandIn; }
  Status begin() override { return {}; }

  // The memory is filled with one bits (NaN as floats), so that a read of memory that was never
  // written shows in the results.
  Result<void*> allocate(std::size_t bytes, const std::string& what) override {
    auto* const memory = static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow));
    if (memory == nullptr)
      return failure("not enough memory for " + what + ": " + std::to_string(bytes) +
                     " bytes are wanted");
    memory_.emplace_back(memory);
    std::memset(memory, 0xff, bytes);
    return static_cast<void*>(memory);
  }
  Result<void*> allocate_host(std::size_t bytes, const std::string& what) override {
    return allocate(bytes, what);
  }

  bool pin(std::span<const std::byte>, std::shared_ptr<const void> owner) override {
    pinned_.push_back(std::move(owner));
    return true;
  }

  Result<Stream> make_stream() override {
    streams_.push_back(std::make_unique<HostStream>());
    return Stream{streams_.back().get()};
  }
  Result<Event> make_event() override { return Event{}; }

  void copy_in(Stream stream, void* device, const void* host, std::size_t bytes) override {
    copy(stream, device, host, bytes);
  }
  void copy_out(Stream stream, void* host, const void* device, std::size_t bytes) override {
    copy(stream, host, device, bytes);
  }
  void copy(Stream stream, void* to, const void* from, std::size_t bytes) override {
    if (bytes != 0) native(stream).add([=] { std::memmove(to, from, bytes); });
  }
  // Work is done when it is queued, in the order of the program. So every wait is already
  // fulfilled.
  void record(Event, Stream) override {}
  void wait(Stream, Event) override {}

  Result<Recording> record_work(Stream stream, const std::function<void()>& queue) override {
    ES_RETURN_IF_ERROR(check());
    recordings_.push_back(std::make_unique<Work>());
    native(stream).record_to(recordings_.back().get());
    queue();
    native(stream).record_to(nullptr);
    return Recording{recordings_.back().get()};
  }
  void launch(Stream stream, Recording recording) override {
    // The arguments of the kernels were copied when the work was recorded. So a value that changes
    // between steps and was recorded by mistake shows in tests on the host, too.
    for (const auto& work : *static_cast<const Work*>(recording.handle)) native(stream).add(work);
  }

  Status synchronise(Stream) override { return check(); }
  Status synchronise(Event) override { return check(); }
  Status check() override { return lost_ ? Status(*lost_) : Status(); }
  void lose(const Error& error) override {
    if (!lost_) lost_ = error;
  }

 private:
  std::vector<std::unique_ptr<std::byte, Free>> memory_;
  std::vector<std::shared_ptr<const void>> pinned_;
  std::vector<std::unique_ptr<HostStream>> streams_;
  std::vector<std::unique_ptr<Work>> recordings_;
  std::optional<Error> lost_;
};

}  // namespace

std::unique_ptr<Device> open_host_device() {
  return std::make_unique<HostDevice>();
}

}  // namespace es::gpu::cuda

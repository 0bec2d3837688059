#pragma once
// Host memory in place of a GPU. The host may access only the memory of the host: outside of
// kernels and copies device memory is not accessible, as with a GPU. This needs a processor with
// protection keys. On others it is open_host_device().
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/cuda/device.h"
#include "gpu/cuda/launch_host.h"

namespace es::test {

// The calling thread may touch device memory.
class OnDevice {
 public:
  OnDevice() { change(1); }
  ~OnDevice() { change(-1); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  // -1: this processor or kernel has no protection keys.
  static int key() {
    static const int key = ::pkey_alloc(0, PKEY_DISABLE_ACCESS);
    return key;
  }

 private:
  static void change(int by) {
    static thread_local int depth = 0;
    depth += by;
    if (key() >= 0) ::pkey_set(key(), depth > 0 ? 0 : PKEY_DISABLE_ACCESS);
  }
};

class GuardedDevice final : public gpu::cuda::Device {
 public:
  using Stream = gpu::cuda::Stream;
  using Event = gpu::cuda::Event;
  using Recording = gpu::cuda::Recording;

  GuardedDevice() = default;
  ~GuardedDevice() override {
    for (const auto& [memory, bytes] : memory_) ::munmap(memory, bytes);
  }

  const gpu::cuda::DeviceKernels& kernels() const override { return host_->kernels(); }
  std::string name() const override { return host_->name(); }
  DeviceType type() const override { return host_->type(); }
  Status begin() override { return host_->begin(); }

  // Filled with ones, like the memory of the host device.
  Result<void*> allocate(std::size_t bytes, const std::string& what) override {
    const std::size_t mapped = bytes + 1;
    void* const memory =
        ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return failure("not enough memory for " + what);
    memory_.push_back({memory, mapped});
    std::memset(memory, 0xff, bytes);
    if (OnDevice::key() >= 0)
      ::pkey_mprotect(memory, mapped, PROT_READ | PROT_WRITE, OnDevice::key());
    return memory;
  }
  Result<void*> allocate_host(std::size_t bytes, const std::string& what) override {
    return host_->allocate_host(bytes, what);
  }
  bool pin(std::span<const std::byte> memory, std::shared_ptr<const void> owner) override {
    return host_->pin(memory, std::move(owner));
  }
  std::size_t spare_bytes() override { return host_->spare_bytes(); }

  Result<Stream> make_stream() override {
    const auto stream = host_->make_stream();
    if (!stream) return stream.error();
    queues_.push_back(std::make_unique<Queue>(*stream));
    return Stream{static_cast<gpu::cuda::HostQueue*>(queues_.back().get())};
  }
  Result<Event> make_event() override { return host_->make_event(); }

  void copy_in(Stream s, void* device, const void* host, std::size_t bytes) override {
    copy(s, device, host, bytes);
  }
  void copy_out(Stream s, void* host, const void* device, std::size_t bytes) override {
    copy(s, host, device, bytes);
  }
  void copy(Stream s, void* to, const void* from, std::size_t bytes) override {
    if (bytes != 0) queue(s).add([=] { std::memmove(to, from, bytes); });
  }
  void record(Event e, Stream s) override { host_->record(e, queue(s).stream); }
  void wait(Stream s, Event e) override { host_->wait(queue(s).stream, e); }
  Result<Recording> record_work(Stream s, const std::function<void()>& work) override {
    return host_->record_work(queue(s).stream, work);
  }
  void launch(Stream s, Recording recording) override { host_->launch(queue(s).stream, recording); }

  Status synchronise(Stream s) override { return host_->synchronise(queue(s).stream); }
  Status synchronise(Event e) override { return host_->synchronise(e); }
  Status check() override { return host_->check(); }
  void lose(const Error& error) override { host_->lose(error); }

 private:
  struct Queue final : gpu::cuda::HostQueue {
    explicit Queue(Stream host_stream) : stream(host_stream) {}
    void add(std::function<void()> work) override {
      static_cast<gpu::cuda::HostQueue*>(stream.handle)->add([work = std::move(work)] {
        const OnDevice there;
        work();
      });
    }
    const Stream stream;  // The stream of the host device.
  };
  static Queue& queue(Stream s) {
    return *static_cast<Queue*>(static_cast<gpu::cuda::HostQueue*>(s.handle));
  }

  std::unique_ptr<gpu::cuda::Device> host_ = gpu::cuda::open_host_device();
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<std::pair<void*, std::size_t>> memory_;
};

}  // namespace es::test

#pragma once
// A device on host memory that has little of it.
#include <memory>
#include <string>

#include "gpu/cuda/device.h"

namespace es::test {

class SmallDevice final : public gpu::cuda::Device {
 public:
  using Stream = gpu::cuda::Stream;
  using Event = gpu::cuda::Event;

  explicit SmallDevice(std::size_t bytes) : bytes_(bytes) {}
  std::size_t free_bytes() const { return bytes_; }

  const gpu::cuda::DeviceKernels& kernels() const override { return host_->kernels(); }
  std::string name() const override { return "small"; }
  DeviceType type() const override { return host_->type(); }
  Status begin() override { return host_->begin(); }

  Result<void*> allocate(std::size_t bytes, const std::string& what) override {
    if (bytes > bytes_) return failure("not enough memory for " + what);
    bytes_ -= bytes;
    return host_->allocate(bytes, what);
  }
  Result<void*> allocate_host(std::size_t bytes, const std::string& what) override {
    return host_->allocate_host(bytes, what);
  }
  Result<Stream> make_stream() override { return host_->make_stream(); }
  Result<Event> make_event() override { return host_->make_event(); }

  void copy_in(Stream s, void* device, const void* host, std::size_t bytes) override {
    host_->copy_in(s, device, host, bytes);
  }
  void copy_out(Stream s, void* host, const void* device, std::size_t bytes) override {
    host_->copy_out(s, host, device, bytes);
  }
  void copy(Stream s, void* to, const void* from, std::size_t bytes) override {
    host_->copy(s, to, from, bytes);
  }
  void record(Event, Stream) override {}
  void wait(Stream, Event) override {}
  Result<gpu::cuda::Recording> record_work(Stream s, const std::function<void()>& queue) override {
    return host_->record_work(s, queue);
  }
  void launch(Stream s, gpu::cuda::Recording recording) override { host_->launch(s, recording); }
  Status synchronise(Stream) override { return check(); }
  Status synchronise(Event) override { return check(); }
  Status check() override { return host_->check(); }
  void lose(const Error& error) override { host_->lose(error); }

 private:
  std::unique_ptr<gpu::cuda::Device> host_ = gpu::cuda::open_host_device();
  std::size_t bytes_;
};

}  // namespace es::test

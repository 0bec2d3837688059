#pragma once
// A device that forwards everything to another one, for tests that change one function of it.
#include <memory>
#include <string>
#include <utility>

#include "gpu/cuda/device.h"

namespace es::test {

class ForwardingDevice : public gpu::cuda::Device {
 public:
  using Stream = gpu::cuda::Stream;
  using Event = gpu::cuda::Event;
  using Recording = gpu::cuda::Recording;

  explicit ForwardingDevice(std::unique_ptr<gpu::cuda::Device> to) : to_(std::move(to)) {}

  const gpu::cuda::DeviceKernels& kernels() const override { return to_->kernels(); }
  std::string name() const override { return to_->name(); }
  DeviceType type() const override { return to_->type(); }
  Status begin() override { return to_->begin(); }

  Result<void*> allocate(std::size_t bytes, const std::string& what) override {
    return to_->allocate(bytes, what);
  }
  Result<void*> allocate_host(std::size_t bytes, const std::string& what) override {
    return to_->allocate_host(bytes, what);
  }
  Result<Stream> make_stream() override { return to_->make_stream(); }
  Result<Event> make_event() override { return to_->make_event(); }

  void copy_in(Stream s, void* device, const void* host, std::size_t bytes) override {
    to_->copy_in(s, device, host, bytes);
  }
  void copy_out(Stream s, void* host, const void* device, std::size_t bytes) override {
    to_->copy_out(s, host, device, bytes);
  }
  void copy(Stream s, void* to, const void* from, std::size_t bytes) override {
    to_->copy(s, to, from, bytes);
  }
  void record(Event e, Stream s) override { to_->record(e, s); }
  void wait(Stream s, Event e) override { to_->wait(s, e); }
  Result<Recording> record_work(Stream s, const std::function<void()>& queue) override {
    return to_->record_work(s, queue);
  }
  void launch(Stream s, Recording recording) override { to_->launch(s, recording); }
  Status synchronise(Stream s) override { return to_->synchronise(s); }
  Status synchronise(Event e) override { return to_->synchronise(e); }
  Status check() override { return to_->check(); }
  void lose(const Error& error) override { to_->lose(error); }

 private:
  std::unique_ptr<gpu::cuda::Device> to_;
};

}  // namespace es::test

#pragma once
// A device on host memory whose streams run in a random order that events and waits permit. Work
// that is queued without a necessary wait therefore reads too early or too late in some of the
// orders. A copy reads its host memory when it runs. The device counts its recordings, and may
// refuse to record.
#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu/cuda/device.h"
#include "gpu/cuda/launch_host.h"
#include "proto/base/check.h"

namespace es::test {

class ShuffledDevice final : public gpu::cuda::Device {
 public:
  using Stream = gpu::cuda::Stream;
  using Event = gpu::cuda::Event;
  using Recording = gpu::cuda::Recording;

  struct Counts {
    int recorded = 0, launched = 0;
  };

  // `counts` outlives the device.
  ShuffledDevice(std::uint64_t seed, bool records, Counts& counts)
      : random_(seed), records_(records), counts_(counts) {}

  const gpu::cuda::DeviceKernels& kernels() const override { return host_->kernels(); }
  std::string name() const override { return "shuffled"; }
  DeviceType type() const override { return host_->type(); }
  Status begin() override { return host_->begin(); }
  Result<void*> allocate(std::size_t bytes, const std::string& what) override {
    return host_->allocate(bytes, what);
  }
  Result<void*> allocate_host(std::size_t bytes, const std::string& what) override {
    return host_->allocate_host(bytes, what);
  }
  bool pin(std::span<const std::byte> memory, std::shared_ptr<const void> owner) override {
    return host_->pin(memory, std::move(owner));
  }
  Result<Stream> make_stream() override {
    queues_.push_back(std::make_unique<Queue>(*this, random_()));
    return Stream{queues_.back().get()};
  }
  Result<Event> make_event() override {
    marks_.push_back(std::make_unique<Mark>());
    return Event{marks_.back().get()};
  }

  void copy_in(Stream s, void* device, const void* host, std::size_t bytes) override {
    copy(s, device, host, bytes);
  }
  void copy_out(Stream s, void* host, const void* device, std::size_t bytes) override {
    copy(s, host, device, bytes);
  }
  void copy(Stream s, void* to, const void* from, std::size_t bytes) override {
    if (bytes != 0) queue(s).add([=] { std::memmove(to, from, bytes); });
  }
  void record(Event e, Stream s) override { mark(e) = {&queue(s), queue(s).added()}; }
  void wait(Stream s, Event e) override { queue(s).add_wait(mark(e)); }

  Result<Recording> record_work(Stream s, const std::function<void()>& work) override {
    ++counts_.recorded;
    if (!records_) return failure("shuffled: records nothing");
    recordings_.push_back(std::make_unique<Works>());
    queue(s).recording = recordings_.back().get();
    work();
    queue(s).recording = nullptr;
    return Recording{recordings_.back().get()};
  }
  void launch(Stream s, Recording recording) override {
    ++counts_.launched;
    for (const auto& work : *static_cast<const Works*>(recording.handle)) queue(s).add(work);
  }

  Status synchronise(Stream s) override {
    while (!queue(s).items.empty()) perform_one();
    return check();
  }
  Status synchronise(Event e) override {
    while (!mark(e).passed()) perform_one();
    return check();
  }
  Status check() override { return host_->check(); }
  void lose(const Error& error) override { host_->lose(error); }

 private:
  using Works = std::vector<std::function<void()>>;
  struct Queue;
  struct Mark {
    const Queue* queue = nullptr;  // nullptr: it was never recorded.
    std::uint64_t at = 0;
    bool passed() const { return queue == nullptr || queue->done >= at; }
  };
  struct Item {
    Mark after;
    std::function<void()> work;
  };
  struct Queue final : gpu::cuda::HostQueue {
    Queue(ShuffledDevice& device, std::uint64_t turn) : device(device), turn(turn) {}
    void add(std::function<void()> work) override {
      if (recording != nullptr) return recording->push_back(std::move(work));
      items.push_back({{}, std::move(work)});
      device.perform_some();
    }
    void add_wait(const Mark& after) {
      items.push_back({after, [] {}});
    }
    std::uint64_t added() const { return done + items.size(); }

    ShuffledDevice& device;
    const std::uint64_t turn;  // Lower ones first, if one of them can starve others.
    std::deque<Item> items;
    std::uint64_t done = 0;
    Works* recording = nullptr;
  };

  static Queue& queue(Stream s) { return *static_cast<Queue*>(s.handle); }
  static Mark& mark(Event e) { return *static_cast<Mark*>(e.handle); }

  // Performs one item of a stream that may continue.
  void perform_one() {
    std::vector<Queue*> ready;
    for (const auto& q : queues_)
      if (!q->items.empty() && q->items.front().after.passed()) ready.push_back(q.get());
    ES_CHECK_MSG(!ready.empty(), "streams wait for one another");
    Queue& q = starves_ ? **std::min_element(ready.begin(), ready.end(), by_turn)
                        : *ready[random_() % ready.size()];
    const Item item = std::move(q.items.front());
    q.items.pop_front();
    item.work();
    ++q.done;
  }
  void perform_some() {
    const auto ready = [](const auto& q) {
      return !q->items.empty() && q->items.front().after.passed();
    };
    // If streams starve, fewer items are performed than are queued: the others have enough work.
    for (auto steps = random_() % (starves_ ? 2 : 4); steps > 0; --steps)
      if (std::any_of(queues_.begin(), queues_.end(), ready)) perform_one();
  }

  static bool by_turn(const Queue* a, const Queue* b) { return a->turn < b->turn; }

  std::mt19937_64 random_;
  // A stream continues only when no stream before it can.
  const bool starves_ = random_() % 2 == 0;
  const bool records_;
  Counts& counts_;
  std::unique_ptr<gpu::cuda::Device> host_ = gpu::cuda::open_host_device();
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<std::unique_ptr<Mark>> marks_;
  std::vector<std::unique_ptr<Works>> recordings_;
};

}  // namespace es::test

// The channels of a worker: two exchanges that act like two processes, without a thread.
#include "actors/worker/device/channel_exchange.h"

#include <doctest/doctest.h>

#include <cstring>
#include <optional>

namespace es::actors::worker {
namespace {

using gpu::cuda::ChannelEnd;

constexpr Incarnation kFirst{1}, kSecond{2};
constexpr Generation kGeneration{5};
constexpr Instant kStart = std::chrono::seconds(100);
constexpr std::uint64_t kTwoPieces = kChannelPieceBytes + 1000;

// One worker. `self` is the name that the other one uses for its peer.
struct Worker {
  explicit Worker(Incarnation incarnation)
      : self(incarnation), exchange(device(), pool, [this](ChannelEvent event) {
          events.push_back(std::move(event));
        }) {}

  gpu::ChannelDevice device() const {
    gpu::ChannelDevice opened;
    opened.device = gpu::cuda::open_host_device();
    opened.library = gpu::cuda::open_host_channels(std::to_string(self.value), "host");
    return opened;
  }
  void tell(const ChannelCommand& command) { exchange.perform(command, now); }
  bool work() { return exchange.work(now); }

  // The oldest event of this kind.
  template <class Event>
  Event next() {
    REQUIRE_FALSE(events.empty());
    REQUIRE(std::holds_alternative<Event>(events.front()));
    Event event = std::get<Event>(std::move(events.front()));
    events.pop_front();
    return event;
  }

  // From now on this number of bytes of device memory can be received into.
  void provide(std::size_t bytes) {
    memory = std::make_unique<std::byte[]>(bytes);
    pool->provide(memory.get(), bytes);
  }

  Incarnation self;
  Instant now = kStart;
  std::unique_ptr<std::byte[]> memory;
  std::shared_ptr<gpu::cuda::DevicePool> pool = std::make_shared<gpu::cuda::DevicePool>();
  std::deque<ChannelEvent> events;
  ChannelExchange exchange;
};

std::unique_ptr<Segment> gradient(std::uint64_t bytes, std::uint32_t seed) {
  auto segment = Segment::create(
      segment_label("job", kFirst, kGeneration, "grad." + std::to_string(seed)), bytes);
  REQUIRE(segment.ok());
  for (std::uint64_t i = 0; i < bytes; ++i)
    (*segment)->data()[i] = static_cast<std::byte>((i * 2654435761U + seed) >> 13);
  return *std::move(segment);
}

protocol::Bulk bulk(const Segment& segment, std::uint64_t offset) {
  return {segment.address(), offset, segment.bytes() - offset, nullptr};
}

void work_until(Worker& a, Worker& b, const std::function<bool()>& done) {
  while (!done()) {
    a.work();
    b.work();
  }
}

void connect(Worker& sender, Worker& receiver, Generation generation = kGeneration) {
  sender.tell(OfferChannel{generation, receiver.self});
  const auto offered = sender.next<ChannelOffered>();
  CHECK(offered.to == receiver.self);
  receiver.tell(JoinChannel{generation, sender.self, offered.id});
  work_until(sender, receiver, [&] { return !sender.events.empty(); });
  CHECK(sender.next<ChannelReady>().to == receiver.self);
}

void check_received(Worker& worker, const Segment& sent, std::uint64_t offset) {
  const auto received = worker.next<BytesReceived>();
  const protocol::Bytes& host = received.bytes.host;
  REQUIRE(host);
  REQUIRE(host->size() == sent.bytes() - offset);
  CHECK(std::memcmp(host->data(), sent.data() + offset, host->size()) == 0);
}

void check_received_on_device(Worker& worker, const Segment& sent) {
  const auto received = worker.next<BytesReceived>();
  REQUIRE(received.bytes.device);
  CHECK_FALSE(received.bytes.host);
  CHECK(std::memcmp(received.bytes.device.get(), sent.data(), sent.bytes()) == 0);
}

// The same bytes in the device memory of the worker, and in no segment.
protocol::Bulk on_device(Worker& worker, const Segment& data) {
  const auto block = worker.pool->take(data.bytes());
  REQUIRE(block);
  std::memcpy(block.get(), data.data(), data.bytes());
  protocol::Bulk bulk{.segment = "", .offset = 0, .bytes = data.bytes(), .inline_bytes = nullptr};
  bulk.device = block;
  bulk.in_host = false;
  return bulk;
}

TEST_SUITE("actors/worker/channel_exchange") {
  TEST_CASE("gradients of any size arrive, in the order in which they were announced") {
    Worker a(kFirst), b(kSecond);
    connect(a, b);
    const auto large = gradient(kTwoPieces, 1), small = gradient(64, 2);
    a.tell(SendBytes{kGeneration, kSecond, bulk(*large, 8)});
    a.tell(SendBytes{kGeneration, kSecond, bulk(*small, 0)});
    b.tell(ReceiveBytes{kGeneration, kFirst, kTwoPieces - 8});
    b.tell(ReceiveBytes{kGeneration, kFirst, 64});
    work_until(a, b, [&] { return b.events.size() == 2; });
    check_received(b, *large, 8);
    check_received(b, *small, 0);
    CHECK(a.events.empty());
  }

  TEST_CASE(
      "data in device memory goes to device memory directly, and is staged where it has to be") {
    for (const bool from_device : {true, false})
      for (const bool to_device : {true, false}) {
        CAPTURE(from_device);
        CAPTURE(to_device);
        Worker a(kFirst), b(kSecond);
        if (from_device) a.provide(2 * kTwoPieces);
        if (to_device) b.provide(2 * kTwoPieces);
        connect(a, b);
        const auto data = gradient(kTwoPieces, 1);
        protocol::Bulk sent = bulk(*data, 0);
        if (from_device) sent = on_device(a, *data);
        a.tell(SendBytes{kGeneration, kSecond, sent});
        b.tell(ReceiveBytes{kGeneration, kFirst, kTwoPieces});
        sent.device = nullptr;  // It is held until it has been sent.
        CHECK((a.pool->taken() != 0) == from_device);
        work_until(a, b, [&] { return !b.events.empty(); });
        CHECK((b.pool->taken() != 0) == to_device);
        if (to_device)
          check_received_on_device(b, *data);
        else
          check_received(b, *data, 0);
        while (a.work()) {
        }
        CHECK(a.pool->taken() == 0);
        CHECK(b.pool->taken() == 0);
      }
  }

  TEST_CASE(
      "data for which device memory has no room goes to host memory until there is room again") {
    Worker a(kFirst), b(kSecond);
    b.provide(kTwoPieces + kChannelPieceBytes);
    connect(a, b);
    const auto data = gradient(kTwoPieces, 3);
    for (int i = 0; i < 3; ++i) {
      a.tell(SendBytes{kGeneration, kSecond, bulk(*data, 0)});
      if (i < 2) b.tell(ReceiveBytes{kGeneration, kFirst, kTwoPieces});
    }
    work_until(a, b, [&] { return b.events.size() == 2; });
    check_received_on_device(b, *data);
    check_received(b, *data, 0);
    b.tell(ReceiveBytes{kGeneration, kFirst, kTwoPieces});
    work_until(a, b, [&] { return !b.events.empty(); });
    check_received_on_device(b, *data);
  }

  TEST_CASE("device memory of transfers that end with their generation can be used again") {
    Worker a(kFirst), b(kSecond);
    for (Worker* const worker : {&a, &b}) worker->provide(2 * kTwoPieces);
    connect(a, b);
    const auto data = gradient(kTwoPieces, 4);
    a.tell(SendBytes{kGeneration, kSecond, on_device(a, *data)});
    b.tell(ReceiveBytes{kGeneration, kFirst, kTwoPieces});
    a.work(), b.work();
    CHECK(a.pool->taken() != 0);
    CHECK(b.pool->taken() != 0);
    for (Worker* const worker : {&a, &b}) {
      worker->tell(BeginGeneration{{kGeneration.value + 1}});
      worker->work();
      CHECK(worker->pool->taken() == 0);
    }
  }

  TEST_CASE("both ends send before either one receives") {
    Worker a(kFirst), b(kSecond);
    connect(a, b);
    connect(b, a);
    const auto one = gradient(kTwoPieces, 1), two = gradient(kTwoPieces, 2);
    a.tell(SendBytes{kGeneration, kSecond, bulk(*one, 0)});
    b.tell(SendBytes{kGeneration, kFirst, bulk(*two, 0)});
    for (int i = 0; i < 20; ++i) a.work(), b.work();
    a.tell(ReceiveBytes{kGeneration, kSecond, kTwoPieces});
    b.tell(ReceiveBytes{kGeneration, kFirst, kTwoPieces});
    work_until(a, b, [&] { return !a.events.empty() && !b.events.empty(); });
    check_received(a, *two, 0);
    check_received(b, *one, 0);
  }

  TEST_CASE("a new generation ends running transfers, and commands of the old one have no effect") {
    Worker a(kFirst), b(kSecond);
    connect(a, b);
    const auto data = gradient(kTwoPieces, 1);
    a.tell(SendBytes{kGeneration, kSecond, bulk(*data, 0)});
    a.work();
    const Generation next{kGeneration.value + 1};
    a.tell(BeginGeneration{next});
    b.tell(BeginGeneration{next});
    a.tell(SendBytes{kGeneration, kSecond, bulk(*data, 0)});
    a.tell(OfferChannel{kGeneration, kSecond});
    for (Worker* const worker : {&a, &b}) {
      worker->work();
      CHECK(worker->events.empty());
      CHECK_FALSE(worker->exchange.poll_interval());
    }
    connect(a, b, next);
    a.tell(SendBytes{next, kSecond, bulk(*data, 0)});
    b.tell(ReceiveBytes{next, kFirst, kTwoPieces});
    work_until(a, b, [&] { return !b.events.empty(); });
    check_received(b, *data, 0);
  }

  TEST_CASE("a peer that is gone breaks the channel, at either end") {
    for (const bool sender_goes : {true, false}) {
      Worker stays(kFirst);
      std::optional<Worker> goes(std::in_place, kSecond);
      if (sender_goes)
        connect(*goes, stays);
      else
        connect(stays, *goes);
      if (sender_goes) stays.tell(ReceiveBytes{kGeneration, kSecond, kTwoPieces});
      goes.reset();
      while (stays.events.empty()) stays.work();
      const auto broken = stays.next<ChannelBroken>();
      CHECK(broken.peer == kSecond);
      CHECK(broken.end == (sender_goes ? ChannelEnd::kReceiver : ChannelEnd::kSender));
      CHECK(broken.generation == kGeneration);
      CHECK(broken.error.find("gone") != std::string::npos);
      stays.work();
      CHECK_FALSE(stays.exchange.poll_interval());
    }
  }

  TEST_CASE("a transfer that stops is given up in time, and one that waits for no data is not") {
    Worker a(kFirst), b(kSecond);
    connect(a, b);
    for (Worker* const worker : {&a, &b}) worker->now += 2 * kStallLimit;
    for (int i = 0; i < 3; ++i) a.work(), b.work();
    CHECK(a.events.empty());
    CHECK(b.events.empty());
    b.tell(ReceiveBytes{kGeneration, kFirst, 64});
    b.work();
    b.now += kStallLimit;
    b.work();
    CHECK(b.events.empty());
    b.now += std::chrono::milliseconds(1);
    b.work();
    CHECK(b.next<ChannelBroken>().peer == kFirst);
    while (a.events.empty()) a.work();
    CHECK(a.next<ChannelBroken>().peer == kSecond);
  }

  TEST_CASE("a segment that is gone is an error of that channel") {
    Worker a(kFirst), b(kSecond);
    connect(a, b);
    auto data = gradient(64, 1);
    const protocol::Bulk address = bulk(*data, 0);
    data.reset();
    a.tell(SendBytes{kGeneration, kSecond, address});
    CHECK(a.next<ChannelBroken>().peer == kSecond);
  }

  TEST_CASE("channels beyond the room of the device are refused, and their senders wait unharmed") {
    Worker b(kSecond);
    std::vector<std::unique_ptr<Worker>> senders;
    for (std::uint64_t i = 0; i <= gpu::cuda::kChannelsMax; ++i) {
      senders.push_back(std::make_unique<Worker>(Incarnation{100 + i}));
      senders.back()->tell(OfferChannel{kGeneration, kSecond});
      const auto offered = senders.back()->next<ChannelOffered>();
      b.tell(JoinChannel{kGeneration, senders.back()->self, offered.id});
    }
    std::size_t ready = 0;
    for (const auto& sender : senders) {
      sender->work();
      ready += sender->events.size();
    }
    CHECK(ready == gpu::cuda::kChannelsMax);
    CHECK(b.events.empty());
  }
}

}  // namespace
}  // namespace es::actors::worker

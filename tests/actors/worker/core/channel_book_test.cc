// What both ends know of a channel.
#include "actors/worker/core/channel_book.h"

#include <doctest/doctest.h>

namespace es::actors::worker {
namespace {

using namespace protocol;
using Use = ChannelBook::Use;

constexpr Incarnation kPeer{7}, kOther{8};
constexpr Instant kStart = std::chrono::seconds(100);

Contrib announced(std::uint64_t transfer, Incarnation from = kPeer) {
  Contrib message;
  message.stamp = {Generation{3}, from};
  message.bucket = static_cast<std::uint32_t>(transfer);
  message.data.bytes = 10 * transfer;
  message.data.transfer = transfer;
  return message;
}

Bytes bytes(std::size_t count) {
  return std::make_shared<const std::vector<std::byte>>(count);
}

std::uint32_t bucket_of(const std::optional<PeerMessage>& message) {
  REQUIRE(message);
  return std::get<Contrib>(*message).bucket;
}

TEST_SUITE("actors/worker/channel_book") {
  TEST_CASE(
      "a channel is offered once, used when it is there, and offered again under a new "
      "generation") {
    ChannelBook book(4);
    CHECK(book.use(kPeer) == Use::kOffer);
    CHECK(book.use(kPeer) == Use::kNo);
    book.ready(kPeer);
    CHECK(book.use(kPeer) == Use::kNow);
    CHECK(book.announce(kPeer) == 1);
    CHECK(book.announce(kPeer) == 2);
    book.abandon();
    CHECK(book.use(kPeer) == Use::kOffer);
    book.ready(kPeer);
    CHECK(book.announce(kPeer) == 1);
  }

  TEST_CASE("a channel is open from the time when both ends have met until it breaks") {
    ChannelBook book(4);
    CHECK_FALSE(book.is_open(kPeer));
    CHECK(book.use(kPeer) == Use::kOffer);
    CHECK_FALSE(book.is_open(kPeer));
    book.ready(kPeer);
    CHECK(book.is_open(kPeer));
    CHECK_FALSE(book.is_open(kOther));
    book.broken(kPeer, kStart);
    CHECK_FALSE(book.is_open(kPeer));
  }

  TEST_CASE("gradients and their sums use channels, other data does not") {
    CHECK(carries_gradient(Contrib{}));
    CHECK(carries_gradient(Reduced{}));
    CHECK_FALSE(carries_gradient(State{}));
    CHECK_FALSE(carries_gradient(Fetch{}));
  }

  TEST_CASE("there are at most as many channels as the device has room for") {
    ChannelBook book(1);
    CHECK(book.use(kPeer) == Use::kOffer);
    CHECK(book.use(kOther) == Use::kNo);
    book.abandon();
    CHECK(book.use(kOther) == Use::kOffer);
  }

  TEST_CASE("a channel that breaks before its use costs nothing") {
    ChannelBook book(4);
    CHECK(book.use(kPeer) == Use::kOffer);
    CHECK_FALSE(book.broken(kPeer, kStart));
    book.ready(kPeer);
    CHECK(book.use(kPeer) == Use::kNo);
    CHECK_FALSE(book.broken(kOther, kStart));
  }

  TEST_CASE("data that was announced to a broken channel is reported lost, once") {
    ChannelBook book(4);
    CHECK(book.use(kPeer) == Use::kOffer);
    book.ready(kPeer);
    book.announce(kPeer);
    CHECK(book.broken(kPeer, kStart));
    CHECK_FALSE(book.broken(kPeer, kStart));
    CHECK(book.use(kPeer) == Use::kNo);
  }

  TEST_CASE("a broken channel is forgotten if a round explains it, and reported otherwise") {
    ChannelBook book(4);
    CHECK(book.use(kPeer) == Use::kOffer);
    book.broken(kPeer, kStart);
    book.tick(kStart + kRoundFollows / 2);
    book.abandon();
    CHECK(book.use(kPeer) == Use::kOffer);
    book.broken(kPeer, kStart);
    book.tick(kStart + kRoundFollows);
    book.abandon();
    CHECK(book.use(kPeer) == Use::kNo);
    CHECK(book.use(kOther) == Use::kOffer);
  }
}

TEST_SUITE("actors/worker/channel_inbox") {
  TEST_CASE("messages get their bytes in the order in which their sender announced them") {
    ChannelInbox inbox;
    for (const std::uint64_t transfer : {1, 2}) {
      CHECK(inbox.add(announced(transfer)).receive == 10 * transfer);
      CHECK(inbox.add(announced(transfer, kOther)).receive == 10 * transfer);
    }
    for (const Incarnation from : {kOther, kPeer}) {
      for (const std::uint32_t transfer : {1U, 2U}) {
        const Bytes data = bytes(10 * transfer);
        const auto message = inbox.take(from, {data, nullptr});
        CHECK(bucket_of(message) == transfer);
        const Bulk& bulk = std::get<Contrib>(*message).data;
        CHECK(bulk.inline_bytes == data);
        CHECK(bulk.transfer == 0);
      }
      CHECK_FALSE(inbox.take(from, {bytes(1), nullptr}));
    }
  }

  TEST_CASE("bytes in device memory are used alone, those in host memory are not") {
    ChannelInbox inbox;
    CHECK(inbox.add(announced(1)).receive);
    CHECK(inbox.add(announced(2)).receive);
    const DeviceBytes device = std::make_shared<const std::byte>();
    auto first = inbox.take(kPeer, {nullptr, device});
    REQUIRE(first);
    const Bulk& bulk = std::get<Contrib>(*first).data;
    CHECK(bulk.device == device);
    CHECK(bulk.inline_bytes == nullptr);
    CHECK(on_device_alone(*first));
    auto second = inbox.take(kPeer, {bytes(20), nullptr});
    REQUIRE(second);
    CHECK_FALSE(on_device_alone(*second));
  }

  TEST_CASE("after a missing message nothing is taken from the channel") {
    for (const std::uint64_t next : {1, 3}) {
      ChannelInbox inbox;
      CHECK(inbox.add(announced(1)).receive);
      const auto arrival = inbox.add(announced(next));
      CHECK(arrival.lost);
      CHECK_FALSE(arrival.receive);
      const auto later = inbox.add(announced(2));
      CHECK_FALSE(later.receive);
      CHECK_FALSE(later.lost);  // It was reported already.
    }
  }

  TEST_CASE("data that a broken channel had announced is lost, received data is not") {
    ChannelInbox inbox;
    CHECK_FALSE(inbox.broken(kOther));
    CHECK(inbox.add(announced(1)).receive);
    inbox.take(kPeer, {bytes(10), nullptr});
    ChannelInbox same = inbox;
    CHECK_FALSE(inbox.broken(kPeer));
    CHECK(same.add(announced(2)).receive);
    CHECK(same.broken(kPeer));
    CHECK_FALSE(same.broken(kPeer));
  }

  TEST_CASE("a message that arrives after its channel has broken is lost") {
    ChannelInbox inbox;
    CHECK_FALSE(inbox.broken(kPeer));
    const auto arrival = inbox.add(announced(1));
    CHECK(arrival.lost);
    CHECK_FALSE(arrival.receive);
    CHECK_FALSE(inbox.add(announced(2)).lost);  // It was reported already.
  }

  TEST_CASE("a new generation begins with transfer 1") {
    ChannelInbox inbox;
    CHECK(inbox.add(announced(1)).receive);
    inbox.abandon();
    CHECK_FALSE(inbox.take(kPeer, {bytes(10), nullptr}));
    CHECK(inbox.add(announced(1)).receive);
  }
}

}  // namespace
}  // namespace es::actors::worker

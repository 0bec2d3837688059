// Which bulk data goes by which way.
#include "actors/worker/core/transport.h"

#include <doctest/doctest.h>

#include <string>

namespace es::actors::worker {
namespace {

using namespace protocol;

constexpr Incarnation kSelf{6}, kPeer{7}, kOther{8};

PeerDevice gpu(const char* host, const char* device) {
  return {host, {"nccl 2.28.9", device}};
}

const PeerDevice kCpu{"h", {}};
const PeerDevice kFarCpu{"g", {}};
const PeerDevice kOlderGpu{"h", {"nccl 2.20.5", "GPU-3"}};

PeerMessage gradient(bool in_host) {
  Contrib message;
  message.data.in_host = in_host;
  return message;
}

Member member(Incarnation incarnation, const PeerDevice& device) {
  Member member;
  member.incarnation = incarnation;
  member.host_id = device.host_id;
  member.channel = device.channel;
  return member;
}

TEST_SUITE("actors/worker/transport") {
  TEST_CASE("the best transport between two devices is the same in both directions") {
    struct Row {
      const char* what;
      PeerDevice a, b;
      Transport best, through_host;
    };
    const Row table[] = {
        {"two GPUs of one host", gpu("h", "GPU-1"), gpu("h", "GPU-2"), Transport::kChannel,
         Transport::kSharedMemory},
        {"GPUs of two hosts", gpu("h", "GPU-1"), gpu("g", "GPU-2"), Transport::kChannel,
         Transport::kMessages},
        {"two workers on one GPU", gpu("h", "GPU-1"), gpu("h", "GPU-1"), Transport::kSharedMemory,
         Transport::kSharedMemory},
        {"two versions of NCCL", gpu("h", "GPU-1"), kOlderGpu, Transport::kSharedMemory,
         Transport::kSharedMemory},
        {"a GPU and a CPU", gpu("h", "GPU-1"), kCpu, Transport::kSharedMemory,
         Transport::kSharedMemory},
        {"a GPU and a CPU of another host", gpu("h", "GPU-1"), kFarCpu, Transport::kMessages,
         Transport::kMessages},
        {"two CPUs of one host", kCpu, kCpu, Transport::kSharedMemory, Transport::kSharedMemory},
        {"CPUs of two hosts", kCpu, kFarCpu, Transport::kMessages, Transport::kMessages},
    };
    for (const Row& row : table) {
      CAPTURE(row.what);
      CHECK(best_transport(row.a, row.b) == row.best);
      CHECK(best_transport(row.b, row.a) == row.best);
      CHECK(host_transport(row.a, row.b) == row.through_host);
      CHECK(host_transport(row.b, row.a) == row.through_host);
    }
  }

  TEST_CASE("a message goes by an open channel only if it carries a gradient") {
    enum class Channel { kNone, kOffered, kOpen, kBroken };
    struct Row {
      const char* what;
      Channel channel;
      PeerMessage message;
      Transport transport;
      bool offer, copy_out;
    };
    const Row table[] = {
        {"the first gradient", Channel::kNone, gradient(true), Transport::kSharedMemory, true,
         false},
        {"the first gradient, on the device", Channel::kNone, gradient(false),
         Transport::kSharedMemory, true, true},
        {"the first message without a gradient", Channel::kNone, State{}, Transport::kSharedMemory,
         true, false},
        {"a gradient before the channel is open", Channel::kOffered, gradient(true),
         Transport::kSharedMemory, false, false},
        {"the same, on the device", Channel::kOffered, gradient(false), Transport::kSharedMemory,
         false, true},
        {"a gradient", Channel::kOpen, gradient(true), Transport::kChannel, false, false},
        {"a gradient on the device", Channel::kOpen, gradient(false), Transport::kChannel, false,
         false},
        {"a sum", Channel::kOpen, Reduced{}, Transport::kChannel, false, false},
        {"a version", Channel::kOpen, State{}, Transport::kSharedMemory, false, false},
        {"a request", Channel::kOpen, Fetch{}, Transport::kSharedMemory, false, false},
        {"a gradient after the channel broke", Channel::kBroken, gradient(false),
         Transport::kSharedMemory, false, true},
    };
    for (const Row& row : table) {
      CAPTURE(row.what);
      ChannelBook book(4);
      if (row.channel != Channel::kNone) book.use(kPeer);
      if (row.channel == Channel::kOpen || row.channel == Channel::kBroken) book.ready(kPeer);
      if (row.channel == Channel::kBroken) book.broken(kPeer, Instant());
      PeerMessage message = row.message;
      const TransportChoice choice =
          choose_transport(gpu("h", "GPU-1"), gpu("h", "GPU-2"), kPeer, message, book);
      CHECK(choice.transport == row.transport);
      CHECK(choice.offer_channel == row.offer);
      CHECK(choice.copy_out_first == row.copy_out);
    }
  }

  TEST_CASE("no channel is offered to a peer that cannot have one") {
    for (const PeerDevice& peer : {kCpu, kFarCpu, kOlderGpu, gpu("h", "GPU-1")}) {
      ChannelBook book(4);
      PeerMessage message = gradient(false);
      const TransportChoice choice =
          choose_transport(gpu("h", "GPU-1"), peer, kPeer, message, book);
      CHECK(choice.transport == host_transport(gpu("h", "GPU-1"), peer));
      CHECK_FALSE(choice.offer_channel);
      CHECK(choice.copy_out_first);
      CHECK(book.use(kPeer) == ChannelBook::Use::kOffer);  // nothing was recorded
    }
  }

  TEST_CASE("gradients need copies in host memory unless every other member has an open channel") {
    const PeerDevice self = gpu("h", "GPU-1");
    ChannelBook book(4);
    CHECK_FALSE(needs_host_copies(self, kSelf, {member(kSelf, self)}, book));
    const std::vector<Member> gpus = {member(kSelf, self), member(kPeer, gpu("h", "GPU-2"))};
    CHECK(needs_host_copies(self, kSelf, gpus, book));
    book.use(kPeer);
    CHECK(needs_host_copies(self, kSelf, gpus, book));
    book.ready(kPeer);
    CHECK_FALSE(needs_host_copies(self, kSelf, gpus, book));
    std::vector<Member> mixed = gpus;
    mixed.push_back(member(kOther, kCpu));
    CHECK(needs_host_copies(self, kSelf, mixed, book));
    book.broken(kPeer, Instant());
    CHECK(needs_host_copies(self, kSelf, gpus, book));
  }
}

}  // namespace
}  // namespace es::actors::worker

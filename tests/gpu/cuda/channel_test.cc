// Channels between host memory: the promises of all channels.
#include "gpu/cuda/channel.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <vector>

namespace es::gpu::cuda {
namespace {

using State = Channel::State;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kMoreThanASocketHolds = std::size_t{8} << 20;

Bytes pattern(std::size_t bytes, std::uint32_t seed) {
  Bytes data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>((i * 2654435761U + seed) >> 11);
  return data;
}

struct Ends {
  std::unique_ptr<Channel> sender, receiver;
};

std::unique_ptr<Channel> open(ChannelEnd end, const std::string& id) {
  auto channel = open_host_channels("device", "host")->open(end, id);
  REQUIRE(channel.ok());
  return *std::move(channel);
}

std::string new_id() {
  const auto id = open_host_channels("device", "host")->make_id();
  REQUIRE(id.ok());
  return *id;
}

Ends open_pair() {
  const std::string id = new_id();
  Ends ends;
  ends.sender = open(ChannelEnd::kSender, id);
  ends.receiver = open(ChannelEnd::kReceiver, id);
  return ends;
}

State state(Channel& channel) {
  const auto polled = channel.poll();
  REQUIRE(polled.ok());
  return *polled;
}

// Runs them in turn until all are idle.
void finish(const std::vector<Channel*>& channels) {
  for (bool all = false; !all;) {
    all = true;
    for (Channel* const channel : channels) all = state(*channel) == State::kIdle && all;
  }
}

// Runs `body` in a process of its own, which never returns from it. Reports when the process has
// called `ready`.
pid_t start_process(const std::function<void(const std::function<void()>& ready)>& body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    body([&] { [[maybe_unused]] const auto written = ::write(ends[1], "r", 1); });
    for (;;) ::pause();
  }
  ::close(ends[1]);
  char byte = 0;
  REQUIRE(::read(ends[0], &byte, 1) == 1);
  ::close(ends[0]);
  return child;
}

void end_process(pid_t child) {
  ::kill(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
}

// The blocks of all channels of a device with that number of multiprocessors, in both directions.
int blocks_of_transfers(int multiprocessors) {
  return 2 * static_cast<int>(channels_each_way(multiprocessors)) * kTransferBlocks;
}

TEST_SUITE("gpu/cuda/channel") {
  TEST_CASE("transfers arrive whole and in their order") {
    const Ends ends = open_pair();
    for (const std::size_t bytes : {std::size_t{1}, kMoreThanASocketHolds, std::size_t{4096}}) {
      Bytes sent = pattern(bytes, static_cast<std::uint32_t>(bytes)), got(bytes);
      finish({ends.sender.get(), ends.receiver.get()});
      ends.sender->begin({}, sent.data(), bytes);
      ends.receiver->begin({}, got.data(), bytes);
      finish({ends.sender.get(), ends.receiver.get()});
      CHECK(got == sent);
    }
  }

  TEST_CASE("two workers that both send first and then receive do not deadlock") {
    const Ends there = open_pair(), back = open_pair();
    Bytes a = pattern(kMoreThanASocketHolds, 1), b = pattern(kMoreThanASocketHolds, 2);
    Bytes got_a(a.size()), got_b(b.size());
    finish({there.sender.get(), there.receiver.get(), back.sender.get(), back.receiver.get()});
    there.sender->begin({}, a.data(), a.size());
    back.sender->begin({}, b.data(), b.size());
    for (int i = 0; i < 10; ++i) {
      CHECK(state(*there.sender) == State::kBusy);
      CHECK(state(*back.sender) == State::kBusy);
    }
    there.receiver->begin({}, got_a.data(), a.size());
    back.receiver->begin({}, got_b.data(), b.size());
    finish({there.sender.get(), there.receiver.get(), back.sender.get(), back.receiver.get()});
    CHECK(got_a == a);
    CHECK(got_b == b);
  }

  TEST_CASE("a sender without a receiver stays in the state opening, and can be given up") {
    const auto sender = open(ChannelEnd::kSender, new_id());
    for (int i = 0; i < 10; ++i) CHECK(state(*sender) == State::kOpening);
    sender->abort();
    CHECK(sender->released());
    CHECK_FALSE(sender->poll().ok());
  }

  TEST_CASE("transfers of all channels use at most half of the multiprocessors of a device") {
    for (int multiprocessors = 8; multiprocessors <= 300; ++multiprocessors) {
      CAPTURE(multiprocessors);
      CHECK(blocks_of_transfers(multiprocessors) <= multiprocessors / 2);
      CHECK(channels_each_way(multiprocessors) >= channels_each_way(multiprocessors - 1));
    }
    CHECK(channels_each_way(1) == 1);               // The device can do nothing else meanwhile.
    CHECK(channels_each_way(40) == 5);              // T4
    CHECK(channels_each_way(132) == kChannelsMax);  // H100
    CHECK(open_host_channels("device", "host")->channels_max() == kChannelsMax);
  }

  TEST_CASE("a receiver without a sender is an error") {
    const auto opened = open_host_channels("device", "host")->open(ChannelEnd::kReceiver, new_id());
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().message.find("connect") != std::string::npos);
  }

  TEST_CASE("a peer that is killed in the middle of a transfer breaks the channel") {
    const std::string id = new_id();
    const auto sender = open(ChannelEnd::kSender, id);
    Bytes sent(2 * kMoreThanASocketHolds, std::byte{0xab});
    const pid_t peer = start_process([&](const auto& ready) {
      Bytes taken(kMoreThanASocketHolds);
      const auto channel = open(ChannelEnd::kReceiver, id);
      ready();
      channel->begin({}, taken.data(), taken.size());
      for (;;)
        if (!channel->poll().ok()) ::_exit(1);
    });
    while (state(*sender) == State::kOpening) continue;
    sender->begin({}, sent.data(), sent.size());
    // It takes half of them and no more.
    for (int i = 0; i < 100; ++i) CHECK(state(*sender) == State::kBusy);
    end_process(peer);
    auto polled = sender->poll();
    while (polled.ok()) polled = sender->poll();
    CHECK(polled.error().message.starts_with("channel: "));
    sender->abort();
    CHECK(sender->released());
  }

  TEST_CASE("a frozen peer does not delay the caller that gives the channel up") {
    const std::string id = new_id();
    const auto sender = open(ChannelEnd::kSender, id);
    Bytes sent(2 * kMoreThanASocketHolds, std::byte{0xab});
    const pid_t peer = start_process([&](const auto& ready) {
      const auto channel = open(ChannelEnd::kReceiver, id);
      ready();
      for (;;) ::pause();
    });
    while (state(*sender) == State::kOpening) continue;
    sender->begin({}, sent.data(), sent.size());
    for (int i = 0; i < 100; ++i) CHECK(state(*sender) == State::kBusy);
    sender->abort();
    CHECK(sender->released());
    end_process(peer);
  }

  TEST_CASE("data that were sent before the sender left are still received") {
    Ends ends = open_pair();
    Bytes sent = pattern(100, 3), got(100);
    finish({ends.sender.get(), ends.receiver.get()});
    ends.sender->begin({}, sent.data(), sent.size());
    finish({ends.sender.get()});
    ends.sender.reset();
    ends.receiver->begin({}, got.data(), got.size());
    while (got.back() != sent.back() && ends.receiver->poll().ok()) continue;
    CHECK(got == sent);
    CHECK_FALSE(ends.receiver->poll().ok());
  }
}

}  // namespace
}  // namespace es::gpu::cuda

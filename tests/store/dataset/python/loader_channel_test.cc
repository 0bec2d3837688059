#include "store/dataset/python/loader_channel.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <cstring>
#include <thread>

namespace es::store {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kReady = 1, kSample = 2, kFailed = 3;

template <class... Numbers>
Bytes bytes_of(Numbers... numbers) {
  Bytes bytes;
  const auto put = [&](auto number) {
    const auto* const first = reinterpret_cast<const std::uint8_t*>(&number);
    bytes.insert(bytes.end(), first, first + sizeof number);
  };
  (put(numbers), ...);
  return bytes;
}

Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Bytes text(const char* words) {
  return {words, words + std::strlen(words)};
}

CapturedInput input_named(const char* name, ValueType type, std::vector<std::int64_t> shape) {
  SampleField field{.name = name, .high = 9};
  if (type == ValueType::kI32) field.type = FieldType::kI32;
  for (const std::int64_t extent : shape) field.channels *= extent;
  return {std::move(field), type, std::move(shape)};
}

// A worker's channel, and the socket and memory of its loader process.
struct Exchange {
  BucketInputs buckets{
      {input_named("x", ValueType::kF32, {2}), input_named("label", ValueType::kI32, {})},
      {input_named("x", ValueType::kF32, {1}), input_named("label", ValueType::kI32, {})}};
  std::unique_ptr<FileDescriptor> loader;
  SharedSamples* memory = nullptr;
  std::unique_ptr<LoaderChannel> channel;

  Exchange() {
    int sockets[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
    loader = std::make_unique<FileDescriptor>(sockets[1]);
    auto shared = SharedSamples::create(3, 12);
    REQUIRE(shared.ok());
    memory = shared->get();
    channel = std::make_unique<LoaderChannel>(sockets[0], *std::move(shared));
  }

  // What the loader process sends, whatever it is asked.
  void say(const Bytes& message) const {
    REQUIRE(::send(loader->get(), message.data(), message.size(), 0) ==
            static_cast<ssize_t>(message.size()));
  }
  Bytes hear() const {
    Bytes message(4096);
    const ssize_t got = ::recv(loader->get(), message.data(), message.size(), 0);
    REQUIRE(got >= 0);
    message.resize(static_cast<std::size_t>(got));
    return message;
  }
  LoaderOutcome begin(LoaderReady& ready) { return channel->begin({7, buckets}, 0, ready); }
  LoaderOutcome begin() {
    LoaderReady ready;
    return begin(ready);
  }
  LoaderOutcome fill(std::vector<Bytes>& received, std::uint32_t limit_s = 0) {
    const std::vector<std::uint64_t> samples = {5, 1, 8};
    return channel->fill({.half = Half::kEval, .bucket = 1, .epoch = 4}, samples, limit_s,
                         [&](std::size_t position, std::span<const std::uint8_t> bytes) {
                           CHECK(position == received.size());
                           received.emplace_back(bytes.begin(), bytes.end());
                           return Status();
                         });
  }
  LoaderOutcome fill(std::uint32_t limit_s = 0) {
    std::vector<Bytes> received;
    return fill(received, limit_s);
  }
};

void check_broken(const LoaderOutcome& outcome, std::size_t position, const char* part) {
  CHECK(outcome.fault == LoaderFault::kBroken);
  CHECK(outcome.position == position);
  CHECK_MESSAGE(outcome.text.find(part) != std::string::npos, outcome.text);
}

}  // namespace

TEST_SUITE("store/dataset/python/channel") {
  TEST_CASE("the setup has the seed and the place of every array in every length bucket") {
    Exchange exchange;
    exchange.say(bytes_of(kReady, 0U, std::uint64_t{10}, std::uint64_t{4}) + Bytes{0, 1});
    LoaderReady ready;
    CHECK(exchange.begin(ready).fault == LoaderFault::kNone);
    CHECK(ready.train_count == 10);
    CHECK(ready.eval_count == 4);
    CHECK(ready.types == std::vector{NpyType::kF32, NpyType::kI32});
    const Bytes x = bytes_of(std::uint64_t{0}, 1U, 1U, std::uint64_t{2}) + text("x");
    const Bytes label = bytes_of(std::uint64_t{8}, 0U, 5U) + text("label");
    const Bytes short_x = bytes_of(std::uint64_t{0}, 1U, 1U, std::uint64_t{1}) + text("x");
    const Bytes behind_it = bytes_of(std::uint64_t{4}, 0U, 5U) + text("label");
    CHECK(exchange.hear() == bytes_of(2U, 3U, std::uint64_t{7}, std::uint64_t{12}, 2U, 2U) + x +
                                 label + short_x + behind_it);
  }

  TEST_CASE("samples travel through the shared memory") {
    Exchange exchange;
    for (std::uint32_t position = 0; position < 3; ++position) {
      auto* const sample = const_cast<std::uint8_t*>(exchange.memory->sample(position).data());
      std::memset(sample, static_cast<int>(position + 1), 12);
      exchange.say(bytes_of(kSample, position));
    }
    std::vector<Bytes> received;
    CHECK(exchange.fill(received).fault == LoaderFault::kNone);
    CHECK(received == std::vector{Bytes(12, 1), Bytes(12, 2), Bytes(12, 3)});
    CHECK(exchange.hear() == bytes_of(1U, 1U, 3U, std::uint64_t{4}));
    CHECK(exchange.memory->indices()[0] == 5);
    CHECK(exchange.memory->indices()[2] == 8);
  }

  TEST_CASE("a message that is not allowed ends the exchange") {
    const std::uint64_t length = 10;
    const Bytes long_text(20 << 10, 'a');
    struct Case {
      Bytes message;
      const char* part;
    };
    for (const Case& c : {Case{Bytes{1, 2, 3}, "a message of 3 bytes"},
                          Case{bytes_of(kFailed, 0U) + long_text, "a message of 20488 bytes"},
                          Case{bytes_of(kSample, 0U), "kind 2, position 0, with 0 bytes"},
                          Case{bytes_of(9U, 0U), "kind 9"},
                          Case{bytes_of(kReady, 0U, length, length) + Bytes{0}, "with 17 bytes"},
                          Case{bytes_of(kReady, 0U, length, length) + Bytes{0, 4}, "the type 4"},
                          Case{bytes_of(kFailed, 1U) + text("a"), "position 1"}}) {
      Exchange exchange;
      exchange.say(c.message);
      check_broken(exchange.begin(), 0, c.part);
    }
    for (const Case& c : {Case{bytes_of(kSample, 0U), "kind 2, position 0"},
                          Case{bytes_of(kSample, 4000000000U), "position 4000000000"},
                          Case{bytes_of(kSample, 1U) + text("a"), "with 1 bytes"},
                          Case{bytes_of(kReady, 1U), "kind 1"},
                          Case{bytes_of(kFailed, 2U) + text("a"), "position 2"}}) {
      Exchange exchange;
      exchange.say(bytes_of(kSample, 0U));
      exchange.say(c.message);
      check_broken(exchange.fill(), 1, c.part);
    }
  }

  TEST_CASE("garbage of any length is refused and never read beyond its end") {
    for (std::size_t size = 1; size < 200; ++size) {
      Exchange exchange;
      exchange.say(Bytes(size, 0xa5));
      CHECK(exchange.begin().fault == LoaderFault::kBroken);
      exchange.say(Bytes(size, 0xa5));
      CHECK(exchange.fill().fault == LoaderFault::kBroken);
    }
  }

  TEST_CASE("the end of the process, its silence and its error are told apart") {
    Exchange silent;
    CHECK(silent.begin().fault == LoaderFault::kSilent);
    silent.say(bytes_of(kSample, 0U));
    const LoaderOutcome stopped = silent.fill();
    CHECK(stopped.fault == LoaderFault::kSilent);
    CHECK(stopped.position == 1);

    Exchange ended;
    std::thread closing([&] {
      ended.hear();
      ended.say(bytes_of(kSample, 0U));
      ended.loader.reset();
    });
    const LoaderOutcome end = ended.fill(60);
    closing.join();
    CHECK(end.fault == LoaderFault::kEnded);
    CHECK(end.position == 1);
    CHECK(ended.begin().fault == LoaderFault::kEnded);

    Exchange failing;
    failing.say(bytes_of(kFailed, 0U) + text("no file\n\x1b[31m"));
    const LoaderOutcome failed = failing.fill();
    CHECK(failed.fault == LoaderFault::kFailed);
    CHECK(failed.text == "no file\\x0a\\x1b[31m");
  }

  TEST_CASE("an error of the receiver ends the exchange with its position") {
    Exchange exchange;
    exchange.say(bytes_of(kSample, 0U));
    exchange.say(bytes_of(kSample, 1U));
    const std::vector<std::uint64_t> samples = {5, 1, 8};
    const LoaderOutcome outcome = exchange.channel->fill(
        {}, samples, 0, [](std::size_t position, std::span<const std::uint8_t>) {
          return position == 0 ? Status() : Status(usage_error("a bad value"));
        });
    CHECK(outcome.fault == LoaderFault::kFailed);
    CHECK(outcome.position == 1);
    CHECK(outcome.text == "a bad value");
  }

  TEST_CASE("a loader process cannot take the memory away") {
    Exchange exchange;
    CHECK(::ftruncate(exchange.memory->descriptor(), 0) != 0);
    CHECK(::ftruncate(exchange.memory->descriptor(), 1 << 20) != 0);
  }
}

}  // namespace es::store

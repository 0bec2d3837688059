#include "proto/msg.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "proto/messages.h"

namespace es {
namespace {

Msg<wire::WorkerExited> exited(std::uint64_t incarnation, const std::string& last_words) {
  return Msg<wire::WorkerExited>::build({.job = "job", .request = 5},
                                        [&](wire::WorkerExited::Builder b) {
                                          b.setIncarnation(incarnation);
                                          b.setExitCode(-1);
                                          b.setLastWords(last_words);
                                        });
}

TEST_SUITE("proto/msg") {
  TEST_CASE("a message that is built can be viewed, under the tag of its type") {
    const auto message = exited(42, "bye");
    auto view = message.view();
    CHECK(view->getIncarnation() == 42);
    CHECK(view->getExitCode() == -1);
    CHECK(std::string(view->getLastWords().cStr()) == "bye");
    CHECK(message.envelope().type == MessageType::kWorkerExited);
    CHECK(message.envelope().job == "job");
    CHECK(message.envelope().request == 5);
  }

  TEST_CASE("a message larger than the scratch space is whole") {
    const std::string long_text(100000, 'x');
    const auto message = exited(1, long_text);
    CHECK(std::string(message.view()->getLastWords().cStr()) == long_text);
    CHECK(message.frame()->body_bytes() > long_text.size());
  }

  TEST_CASE("copies share the words") {
    const auto message = exited(1, "x");
    const auto copy = message;  // NOLINT: the copy is what is tested
    CHECK(copy == message);
    CHECK(copy.frame().get() == message.frame().get());
    CHECK_FALSE(exited(1, "x") == message);
  }

  TEST_CASE("a view keeps the words alive") {
    auto message = std::make_unique<Msg<wire::WorkerExited>>(exited(7, "last"));
    auto view = message->view();
    message.reset();
    CHECK(std::string(view->getLastWords().cStr()) == "last");
  }

  TEST_CASE("a received frame becomes a message of its own type only") {
    const auto frame = exited(3, "x").frame();
    const auto same = Msg<wire::WorkerExited>::from_frame(frame);
    REQUIRE(same.ok());
    CHECK((*same).view()->getIncarnation() == 3);
    const auto other = Msg<wire::KillWorker>::from_frame(frame);
    REQUIRE_FALSE(other.ok());
    CHECK(other.error().kind == ErrorKind::kUsage);
  }

  TEST_CASE("decode returns the value of the reader, and an error for a malformed body") {
    const auto read_incarnation = [](wire::WorkerExited::Reader reader) {
      return reader.getIncarnation() + reader.getLastWords().size();
    };
    CHECK(*exited(3, "four").decode(read_incarnation) == 7);
    auto words = kj::heapArray<capnp::word>(4);
    for (kj::byte& byte : words.asBytes()) byte = 0xff;
    const auto bad = Msg<wire::WorkerExited>::from_frame(std::make_shared<const Frame>(
        Frame{.envelope = {.type = MessageType::kWorkerExited}, .body = std::move(words)}));
    REQUIRE(bad.ok());
    const auto result = (*bad).decode(read_incarnation);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().message.find('\n') == std::string::npos);
  }

  TEST_CASE("many threads may read one message") {
    const auto message = exited(11, std::string(1000, 'y'));
    std::vector<std::uint64_t> sums(4, 0);
    std::vector<std::thread> threads;
    for (std::uint64_t& sum : sums)
      threads.emplace_back([&sum, message] {
        for (int i = 0; i < 1000; ++i) {
          auto view = message.view();
          sum += view->getIncarnation() + view->getLastWords().size();
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::uint64_t sum : sums) CHECK(sum == 1000 * 1011);
  }
}

}  // namespace
}  // namespace es

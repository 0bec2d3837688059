#include "actors/base/gateway/shell/visit.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "proto/messages.h"

namespace es::actors {
namespace {

Inbound exited(const std::string& last_words) {
  const auto message = Msg<wire::WorkerExited>::build({}, [&](wire::WorkerExited::Builder b) {
    b.setIncarnation(3);
    b.setLastWords(last_words);
  });
  return {.from = "node/a", .frame = message.frame()};
}

Inbound malformed() {
  auto words = kj::heapArray<capnp::word>(4);
  for (kj::byte& byte : words.asBytes()) byte = 0xff;
  return {.from = "node/a",
          .frame = std::make_shared<const Frame>(
              Frame{.envelope = {.type = MessageType::kWorkerExited}, .body = std::move(words)})};
}

TEST_SUITE("base/gateway/visit") {
  TEST_CASE("a visit returns what the function returns") {
    const auto words = visit<wire::WorkerExited>(exited("bye"), [](wire::WorkerExited::Reader r) {
      return std::string(r.getLastWords().cStr());
    });
    REQUIRE(words.ok());
    CHECK(*words == "bye");
  }

  TEST_CASE("a function that returns nothing is visited once") {
    int visits = 0;
    const Status read = visit<wire::WorkerExited>(exited("bye"), [&](wire::WorkerExited::Reader r) {
      CHECK(r.getIncarnation() == 3);
      ++visits;
    });
    CHECK(read.ok());
    CHECK(visits == 1);
  }

  TEST_CASE("a message of another type is an error and is not visited") {
    int visits = 0;
    const Status none =
        visit<wire::KillWorker>(exited("bye"), [&](wire::KillWorker::Reader) { ++visits; });
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().kind == ErrorKind::kUsage);
    const Result<int> value =
        visit<wire::KillWorker>(exited("bye"), [&](wire::KillWorker::Reader) { return ++visits; });
    CHECK_FALSE(value.ok());
    CHECK(visits == 0);
  }

  TEST_CASE("malformed content is an error of one line") {
    std::string words = "none";
    const Status read = visit<wire::WorkerExited>(
        malformed(), [&](wire::WorkerExited::Reader r) { words = r.getLastWords().cStr(); });
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().kind == ErrorKind::kUsage);
    CHECK(read.error().message.find('\n') == std::string::npos);
    CHECK(words == "none");
  }
}

}  // namespace
}  // namespace es::actors

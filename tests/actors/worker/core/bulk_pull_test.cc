// Bulk data of another host, piece by piece.
#include "actors/worker/core/bulk_pull.h"

#include <doctest/doctest.h>

#include <numeric>

namespace es::actors::worker {
namespace {

using namespace protocol;

constexpr Incarnation kSender{7};
constexpr Generation kGeneration{3};

std::byte byte_at(std::uint64_t offset) {
  return static_cast<std::byte>((offset * 2654435761U) >> 13);
}

std::vector<std::byte> memory(std::uint64_t offset, std::uint64_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) data[i] = byte_at(offset + i);
  return data;
}

Bulk remote(std::uint64_t offset, std::uint64_t bytes) {
  Bulk bulk;
  bulk.segment = "1:2:es.job.7.3.version";
  bulk.offset = offset;
  bulk.bytes = bytes;
  bulk.remote = true;
  return bulk;
}

State state(std::uint64_t bytes) {
  State state;
  state.stamp = {kGeneration, kSender};
  state.version = 5;
  state.parameters = remote(64, bytes);
  state.moments = {remote(64 + bytes, bytes), remote(64 + 2 * bytes, 0)};
  return state;
}

// Answers all requests in order, until there are none.
std::vector<PeerMessage> serve(BulkPull& pull, BulkPull::Outcome outcome, std::size_t& pieces) {
  std::deque<BulkPull::Request> open(outcome.requests.begin(), outcome.requests.end());
  std::vector<PeerMessage> complete = outcome.complete;
  while (!open.empty()) {
    CHECK(open.size() <= kPiecesInFlight);
    const BulkPull::Request request = open.front();
    open.pop_front();
    CHECK(request.bytes <= kPieceBytes);
    ++pieces;
    const BulkPull::Outcome next = pull.take({request.generation, request.of}, request.segment,
                                             request.offset, memory(request.offset, request.bytes));
    CHECK(next.progress);
    open.insert(open.end(), next.requests.begin(), next.requests.end());
    complete.insert(complete.end(), next.complete.begin(), next.complete.end());
  }
  return complete;
}

TEST_SUITE("actors/worker/bulk_pull") {
  TEST_CASE("a message without bulk data passes at once") {
    BulkPull pull;
    Reduced reduced;
    reduced.stamp = {kGeneration, kSender};
    reduced.data.segment = "1:2:mapped";
    const BulkPull::Outcome outcome = pull.add(reduced);
    CHECK(outcome.requests.empty());
    CHECK(outcome.complete.size() == 1);
    CHECK(pull.idle());
  }

  TEST_CASE(
      "a version larger than any message arrives whole, with a bounded number of pieces under "
      "way") {
    BulkPull pull;
    const std::uint64_t bytes = 9 * std::uint64_t{kPieceBytes} + 12;
    std::size_t pieces = 0;
    const auto complete = serve(pull, pull.add(state(bytes)), pieces);
    REQUIRE(complete.size() == 1);
    CHECK(pieces == 20);
    const State& got = std::get<State>(complete[0]);
    CHECK(*got.parameters.inline_bytes == memory(64, bytes));
    CHECK(*got.moments[0].inline_bytes == memory(64 + bytes, bytes));
    CHECK(got.moments[1].inline_bytes->empty());
    CHECK_FALSE(got.parameters.remote);
    CHECK(pull.idle());
  }

  TEST_CASE("a piece without a request changes nothing") {
    BulkPull pull;
    const BulkPull::Outcome asked = pull.add(state(1000));
    REQUIRE(asked.requests.size() == 1);
    const BulkPull::Request& request = asked.requests[0];
    const auto data = memory(request.offset, request.bytes);
    const auto refused = [&](const Stamp& from, const std::string& segment, std::uint64_t offset,
                             std::span<const std::byte> bytes) {
      const BulkPull::Outcome outcome = pull.take(from, segment, offset, bytes);
      return !outcome.progress && outcome.complete.empty() && outcome.requests.empty();
    };
    const std::string& segment = request.segment;
    CHECK(refused({kGeneration, Incarnation{8}}, segment, request.offset, data));
    CHECK(refused({Generation{2}, kSender}, segment, request.offset, data));
    CHECK(refused({kGeneration, kSender}, "1:2:other", request.offset, data));
    CHECK(refused({kGeneration, kSender}, segment, request.offset + 1, data));
    CHECK(refused({kGeneration, kSender}, segment, request.offset, memory(64, 1001)));
    CHECK(refused({kGeneration, kSender}, segment, request.offset, {}));
    std::size_t pieces = 0;
    CHECK(serve(pull, asked, pieces).size() == 1);
  }

  TEST_CASE(
      "messages of one sender are fetched one after the other, those of two senders side by side") {
    BulkPull pull;
    const BulkPull::Outcome first = pull.add(state(1000));
    CHECK(pull.add(state(2000)).requests.empty());
    State of_other = state(3000);
    of_other.stamp.sender = Incarnation{8};
    CHECK(pull.add(of_other).requests.size() == 1);
    std::size_t pieces = 0;
    CHECK(serve(pull, first, pieces).size() == 2);
    CHECK_FALSE(pull.idle());
  }

  TEST_CASE("data of an abandoned generation is dropped, and its late pieces too") {
    BulkPull pull;
    const BulkPull::Outcome asked = pull.add(state(1000));
    pull.abandon(kGeneration);
    CHECK_FALSE(pull.idle());
    pull.abandon(Generation{4});
    CHECK(pull.idle());
    const BulkPull::Request& request = asked.requests[0];
    CHECK_FALSE(pull.take({kGeneration, kSender}, request.segment, request.offset,
                          memory(request.offset, request.bytes))
                    .progress);
  }
}

}  // namespace
}  // namespace es::actors::worker

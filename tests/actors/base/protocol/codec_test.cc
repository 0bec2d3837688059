#include "actors/base/protocol/wire/codec.h"

#include <doctest/doctest.h>

#include <random>

#include "actors/base/protocol/core/decisions.h"
#include "proto/messages.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::actors;
using namespace es::actors::protocol;

namespace {

const JobId kJob = "job-1";

Bytes bytes(std::initializer_list<int> values) {
  auto out = std::make_shared<std::vector<std::byte>>();
  for (const int v : values) out->push_back(static_cast<std::byte>(v));
  return out;
}

Stamp stamp() {
  return {{7}, {42}};
}

LedgerLine line() {
  return {9, {1, 2, 0x7fc00000}, {1, 2}, Digest{3, 4}};
}

// The same frame after it has been converted to bytes and back.
FramePtr through_the_wire(const FramePtr& frame) {
  const std::string head = encode_envelope(frame->envelope);
  const auto body = frame->body.asBytes();
  auto decoded = decode_frame(head.data(), head.size(), body.begin(), body.size());
  REQUIRE(decoded.ok());
  return *decoded;
}

template <class T>
T back(const PeerMessage& message) {
  auto decoded = decode_peer(through_the_wire(encode(kJob, message)));
  REQUIRE(decoded.ok());
  return std::get<T>(*decoded);
}
template <class T>
T back(const WorkerMessage& message) {
  auto decoded = decode_worker(through_the_wire(encode(kJob, message)));
  REQUIRE(decoded.ok());
  return std::get<T>(*decoded);
}
template <class T>
T back(const HeadMessage& message) {
  auto decoded = decode_head(through_the_wire(encode(kJob, message)));
  REQUIRE(decoded.ok());
  return std::get<T>(*decoded);
}

void check_same(const Bulk& a, const Bulk& b) {
  CHECK(a.segment == b.segment);
  CHECK(a.offset == b.offset);
  CHECK(a.bytes == b.bytes);
  CHECK(a.transfer == b.transfer);
  REQUIRE((a.inline_bytes == nullptr) == (b.inline_bytes == nullptr));
  if (a.inline_bytes) CHECK(*a.inline_bytes == *b.inline_bytes);
}

void check_same(const std::vector<RankResult>& a, const std::vector<RankResult>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].rank == b[i].rank);
    CHECK(a[i].loss_bits == b[i].loss_bits);
    CHECK(*a[i].context == *b[i].context);
  }
}

FetchShards fetch_shards() {
  return {.stamp = stamp(),
          .version = 5,
          .parameters = {0, 2},
          .moments = {1},
          .rest = true,
          .frozen = true,
          .address = "ipc:///x",
          .host_id = "h"};
}

Shards shards(const Bulk& data) {
  return {.stamp = stamp(),
          .version = 5,
          .parameters = {0, 2},
          .moments = {1},
          .rest = true,
          .frozen = true,
          .data = data,
          .digest = {1, 2},
          .contexts = {bytes({1}), bytes({2})},
          .losses = {7, 8},
          .squares = bytes({1, 2, 3, 4}),
          .drain = true,
          .unacknowledged = {line()}};
}

std::vector<FramePtr> one_of_each() {
  const Bulk shared{"/es.job.1.2.grad.0", 64, 128, nullptr};
  const Bulk inlined{"", 0, 3, bytes({1, 2, 3})};
  const std::vector<RankResult> results = {{2, 5, bytes({9})}, {3, 6, bytes({})}};
  const std::vector<Member> members = {{{1}, {0, 2}, "ipc:///a", "h"},
                                       {{2}, {2, 5}, "ipc:///b", "h", {"nccl 2.28.9", "GPU-1"}}};
  std::vector<FramePtr> frames;
  for (const PeerMessage& m : std::vector<PeerMessage>{
           Contrib{stamp(), 5, 1, {2, 4}, shared, results, true},
           Reduced{stamp(), 5, 0, inlined, results, false}, Fetch{stamp(), 5, "ipc:///x", "h"},
           State{stamp(), 5, {{1, 2}, {3, 4}}, shared, {shared, inlined}, {bytes({1})}, {line()}},
           Complete{stamp(), 5, 0, results, true, bytes({1, 2, 3, 4})},
           Updated{stamp(), 5, 1, shared}, fetch_shards(), shards(inlined)})
    frames.push_back(encode(kJob, m));
  for (const WorkerMessage& m : std::vector<WorkerMessage>{
           Hello{stamp(), {"n", {"cpu-avx2"}, 3}, "ipc:///w", "host", {}, "level D1\nlibrary x\n"},
           Report{stamp(), {}}, Ready{stamp(), 4}, Drained{stamp(), 4}, Committed{stamp(), line()},
           Evaluated{stamp(), 4, bytes({1, 2, 3})}, Suspect{stamp(), 4, {8}},
           CheckpointWritten{stamp(), 1, "/p", 4, {}, "full"},
           CheckpointUnreadable{stamp(), "/p", "block 3"}, Failed{stamp(), "why"},
           Audited{stamp(), 9, 3, Digest{1, 2}}})
    frames.push_back(encode(kJob, m));
  for (const HeadMessage& m : std::vector<HeadMessage>{
           Prepare{stamp()},
           Install{stamp(), 4, members, FromPeer{{1}, "ipc:///a", "h"}, 3, 60, Version{20}, 10, 4},
           Go{stamp()}, Release{stamp()}, Drain{stamp()}, Acknowledge{stamp(), 4},
           WriteCheckpoint{stamp(), 1, "/dir", true, 40, true}, Audit{stamp(), 9, 3},
           AuditPassed{stamp(), 9}, Decided{stamp(), 9, encode(Decisions{{0.5, 2}, 1, 3, {}})}})
    frames.push_back(encode(kJob, m));
  return frames;
}

}  // namespace

TEST_SUITE("actors/base/protocol/codec") {
  TEST_CASE("the messages of sharded state arrive unchanged") {
    const Bulk inlined{"", 0, 3, bytes({1, 2, 3})};
    const Complete complete = back<Complete>(
        PeerMessage(Complete{stamp(), 5, 0, {{2, 5, bytes({9})}}, true, bytes({1, 2, 3, 4})}));
    CHECK(complete.step == 5);
    CHECK(complete.drain);
    check_same(complete.results, {{2, 5, bytes({9})}});
    CHECK(*complete.squares == *bytes({1, 2, 3, 4}));
    CHECK(back<Complete>(PeerMessage(Complete{.stamp = stamp()})).squares == nullptr);
    const Updated updated = back<Updated>(PeerMessage(Updated{stamp(), 5, 3, inlined}));
    CHECK(updated.step == 5);
    CHECK(updated.bucket == 3);
    check_same(updated.data, inlined);
    const FetchShards fetch = back<FetchShards>(PeerMessage(fetch_shards()));
    CHECK(fetch.version == 5);
    CHECK(fetch.parameters == std::vector<std::uint32_t>{0, 2});
    CHECK(fetch.moments == std::vector<std::uint32_t>{1});
    CHECK((fetch.rest && fetch.frozen));
    CHECK(fetch.address == "ipc:///x");
    CHECK(fetch.host_id == "h");
    const Shards sent = shards(inlined);
    const Shards came = back<Shards>(PeerMessage(sent));
    CHECK(came.version == 5);
    CHECK(came.parameters == sent.parameters);
    CHECK(came.moments == sent.moments);
    CHECK((came.rest && came.frozen && came.drain));
    check_same(came.data, inlined);
    CHECK(came.digest == sent.digest);
    REQUIRE(came.contexts.size() == 2);
    CHECK(*came.contexts[1] == *sent.contexts[1]);
    CHECK(came.losses == sent.losses);
    CHECK(*came.squares == *sent.squares);
    CHECK(came.unacknowledged == sent.unacknowledged);
  }

  TEST_CASE("holders of shards arrive unchanged, and those that cannot be are refused") {
    const Report report = back<Report>(WorkerMessage(
        Report{.stamp = stamp(), .version = 4, .held = {1, 3}, .summed = {3}, .ahead = true}));
    CHECK(report.held == std::vector<std::uint32_t>{1, 3});
    CHECK(report.summed == std::vector<std::uint32_t>{3});
    CHECK(report.ahead);
    Install install;
    install.stamp = stamp();
    install.members = {{{1}, {0, 2}, "a", "h"}, {{2}, {2, 4}, "b", "h"}};
    install.source = FromPeer{{1}, "a", "h"};
    install.bucket_count = 2;
    install.holders = {{{1}, {2}}, {{2}, {1}}};
    install.shard_sources = {{{1}, "a", "h"}, {{3}, "c", "h"}};
    const Install came = back<Install>(HeadMessage(install));
    CHECK(came.holders == install.holders);
    CHECK(came.shard_sources == install.shard_sources);
    const auto refused = [](const Install& wrong, const std::string& field) {
      const auto read = decode_head(encode(kJob, HeadMessage(wrong)));
      REQUIRE(!read);
      CHECK(read.error().message.find(field) != std::string::npos);
    };
    Install wrong = install;
    wrong.holders.pop_back();
    refused(wrong, "number of holders");
    wrong = install;
    wrong.holders[1].buddy = {7};
    refused(wrong, "buddy");
    wrong.holders[1].buddy = wrong.holders[1].owner;
    refused(wrong, "buddy");
    wrong = install;
    wrong.shard_sources.clear();
    refused(wrong, "number of shard sources");
  }

  TEST_CASE("the path of a checkpoint, and why one cannot be used, arrive unchanged") {
    const WriteCheckpoint asked =
        back<WriteCheckpoint>(HeadMessage(WriteCheckpoint{stamp(), 1, "/dir", true, 40, true}));
    CHECK(asked.directory == "/dir");
    CHECK(asked.periodic);
    CHECK(asked.at == 40);
    CHECK(asked.make_parent);
    const auto unreadable =
        back<CheckpointUnreadable>(WorkerMessage(CheckpointUnreadable{stamp(), "/p", "block 3"}));
    CHECK(unreadable.path == "/p");
    CHECK(unreadable.error == "block 3");
  }

  TEST_CASE("decisions arrive bit by bit, and a text that is none is refused") {
    const std::string text = encode(Decisions{{0.1, 2}, 1, 3, {-0.25, 7}});
    Install install;
    install.stamp = stamp();
    CHECK(back<Install>(HeadMessage(install)).decisions.empty());
    install.decisions = text;
    CHECK(back<Install>(HeadMessage(install)).decisions == text);
    const Decided decided = back<Decided>(HeadMessage(Decided{stamp(), 9, text}));
    CHECK(decided.step == 9);
    CHECK(decode_decisions(decided.decisions).value() == Decisions{{0.1, 2}, 1, 3, {-0.25, 7}});
    CHECK_FALSE(decode_head(encode(kJob, HeadMessage(Decided{stamp(), 9, text + " "}))).ok());
  }

  TEST_CASE("a contribution arrives as it was sent: by reference, inline or by a channel") {
    const std::vector<RankResult> results = {{2, 5, bytes({9})}, {3, 6, bytes({})}};
    Bulk by_channel;
    by_channel.bytes = 128;
    by_channel.transfer = 7;
    for (const Bulk& bulk : {Bulk{"/es.job.1.2.grad.0", 64, 128, nullptr},
                             Bulk{"", 0, 3, bytes({1, 2, 3})}, by_channel}) {
      const Contrib sent{stamp(), 5, 1, {2, 4}, bulk, results, true};
      const auto got = back<Contrib>(PeerMessage(sent));
      CHECK(got.stamp == sent.stamp);
      CHECK(got.step == 5);
      CHECK(got.bucket == 1);
      CHECK(got.ranks == sent.ranks);
      CHECK(got.drain);
      check_same(got.data, bulk);
      check_same(got.results, results);
    }
  }

  TEST_CASE("a whole version arrives with its digests, contexts and ledger lines") {
    const State sent{stamp(),
                     5,
                     {{1, 2}, {3, 4}},
                     {"/a", 0, 8, nullptr},
                     {{"/a", 8, 8, nullptr}, {"/a", 16, 8, nullptr}},
                     {bytes({1}), bytes({2, 3})},
                     {line()}};
    const auto got = back<State>(PeerMessage(sent));
    CHECK(got.digests == sent.digests);
    REQUIRE(got.moments.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) check_same(got.moments[i], sent.moments[i]);
    REQUIRE(got.contexts.size() == 2);
    CHECK(*got.contexts[1] == *sent.contexts[1]);
    CHECK(got.unacknowledged == sent.unacknowledged);
  }

  TEST_CASE("the data with which a device joins channels arrives with its Hello") {
    const Hello sent{
        stamp(), {"n", {"cuda-sm90-h200"}, 3}, "tcp://w", "h", {"nccl 2.28.9", "GPU-1"}};
    const auto got = back<Hello>(WorkerMessage(sent));
    CHECK(got.channel == sent.channel);
    CHECK(got.host_id == "h");
  }

  TEST_CASE("an installation arrives with members, source and planned stop") {
    const std::vector<Member> members = {{{1}, {0, 2}, "ipc:///a", "h"},
                                         {{2}, {2, 5}, "ipc:///b", "h", {"nccl 2.28.9", "GPU-1"}}};
    for (const Source& source :
         {Source(FromSeed{}), Source(FromPeer{{1}, "ipc:///a", "h"}), Source(FromCheckpoint{"/c"})})
      for (const std::optional<Version> pause :
           {std::optional<Version>(), std::optional<Version>(0)}) {
        const Install sent{stamp(), 4, members, source, 3, 60, pause, 10, 4};
        const auto got = back<Install>(HeadMessage(sent));
        CHECK(got.stamp == sent.stamp);
        CHECK(got.target == 4);
        CHECK(got.members == members);
        CHECK(got.source == source);
        CHECK(got.bucket_count == 3);
        CHECK(got.last_version == 60);
        CHECK(got.pause_at == pause);
        CHECK(got.evaluated_through == 10);
        CHECK(got.acknowledged_through == 4);
      }
  }

  TEST_CASE("a report says whether there is a version, and a commit carries its line") {
    CHECK(back<Report>(WorkerMessage(Report{stamp(), {}})).version == std::nullopt);
    CHECK(back<Report>(WorkerMessage(Report{stamp(), Version{0}})).version == Version{0});
    CHECK(back<Committed>(WorkerMessage(Committed{stamp(), line()})).line == line());
  }

  TEST_CASE("an evaluation arrives with the bytes of its totals") {
    const Evaluated sent{stamp(), 4, bytes({3, 1, 2})};
    const auto got = back<Evaluated>(WorkerMessage(sent));
    CHECK(got.version == 4);
    CHECK(*got.totals == *sent.totals);
  }

  TEST_CASE("every message has one direction only") {
    for (const FramePtr& frame : one_of_each()) {
      const MessageType type = frame->envelope.type;
      CHECK(is_peer_message(type) + is_worker_message(type) + is_head_message(type) == 1);
      CHECK(decode_peer(frame).ok() == is_peer_message(type));
      CHECK(decode_worker(frame).ok() == is_worker_message(type));
      CHECK(decode_head(frame).ok() == is_head_message(type));
    }
  }

  TEST_CASE("ranks that overlap or leave a gap are refused") {
    for (const RankRange second : {RankRange{1, 5}, RankRange{3, 5}, RankRange{2, 2}}) {
      const Install sent{
          stamp(), 0, {{{1}, {0, 2}, "", ""}, {{2}, second, "", ""}}, FromSeed{}, 1, 1, {}, 0, 0};
      CHECK_FALSE(decode_head(encode(kJob, HeadMessage(sent))).ok());
    }
    const Contrib twice{
        stamp(), 0, 0, {1, 2}, {"/a", 0, 4, nullptr}, {{1, 0, bytes({})}, {1, 0, bytes({})}},
        false};
    CHECK_FALSE(decode_peer(encode(kJob, PeerMessage(twice))).ok());
  }

  TEST_CASE("mutated messages are refused or read, and never crash the reader") {
    std::mt19937_64 random(es::test::seed("codec"));
    const auto frames = one_of_each();
    int refused = 0;
    for (int round = 0; round < 50'000; ++round) {
      const Frame& original = *frames[random() % frames.size()];
      const auto body = original.body.asBytes();
      std::vector<unsigned char> changed(body.begin(), body.end());
      for (int k = 0; k < 3; ++k)
        changed[random() % changed.size()] = static_cast<unsigned char>(random());
      const std::string envelope = encode_envelope(original.envelope);
      const auto frame =
          decode_frame(envelope.data(), envelope.size(), changed.data(), changed.size());
      REQUIRE(frame.ok());
      const MessageType type = (*frame)->envelope.type;
      if (is_peer_message(type)) refused += !decode_peer(*frame).ok();
      if (is_worker_message(type)) refused += !decode_worker(*frame).ok();
      if (is_head_message(type)) refused += !decode_head(*frame).ok();
    }
    CHECK(refused > 0);
  }
}

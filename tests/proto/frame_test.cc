#include "proto/frame.h"

#include <capnp/serialize.h>
#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <string>

#include "envelope.capnp.h"
#include "proto/messages.h"
#include "tests/support/seed.h"

namespace es {
namespace {

Envelope full_envelope() {
  return {.type = MessageType::kContrib,
          .job = "resnet18-3f2a",
          .generation = {7},
          .step = 12345,
          .sender = {42},
          .request = 99};
}

std::string body_of(const Frame& frame) {
  const auto chars = frame.body.asChars();
  return {chars.begin(), chars.size()};
}

Msg<wire::Contrib> contrib() {
  return Msg<wire::Contrib>::build(full_envelope(), [](wire::Contrib::Builder b) {
    b.setBucket(3);
    b.getData().setInlined(kj::heapArray<kj::byte>(64));
    b.initResults(2)[1].setLossBits(0x3f800000);
  });
}

Result<std::shared_ptr<const Frame>> decoded(const std::string& envelope, const std::string& body) {
  return decode_frame(envelope.data(), envelope.size(), body.data(), body.size());
}

// Reads everything that a receiver would read. The returned sum keeps the compiler from removing
// the reads.
std::uint64_t read_all(wire::Contrib::Reader reader) {
  std::uint64_t sum = reader.getBucket() + reader.getRankBegin() + reader.getRankEnd();
  if (reader.getData().isInlined())
    for (const kj::byte byte : reader.getData().getInlined()) sum += byte;
  else if (reader.getData().isSegment())
    sum += reader.getData().getSegment().getName().size();
  for (const auto result : reader.getResults())
    sum += result.getLossBits() + result.getContext().size();
  return sum;
}

std::string mutated(std::string bytes, std::mt19937_64& random) {
  const int changes = 1 + static_cast<int>(random() % 6);
  for (int i = 0; i < changes && !bytes.empty(); ++i) {
    switch (random() % 8) {
      case 0:
        bytes.resize(random() % bytes.size());
        break;
      case 1:
        bytes.append(8 * (random() % 4), static_cast<char>(random()));
        break;
      case 2: {  // A whole word: lengths and pointers.
        const std::uint64_t word = random();
        if (bytes.size() >= 8)
          std::memcpy(bytes.data() + random() % (bytes.size() / 8) * 8, &word, sizeof word);
        break;
      }
      default:
        bytes[random() % bytes.size()] ^= static_cast<char>(1u << random() % 8);
    }
  }
  return bytes;
}

TEST_SUITE("proto/frame") {
  TEST_CASE("every field of the envelope and every word of the body arrives unchanged") {
    const Msg<wire::Contrib> message = contrib();
    const std::string body = body_of(*message.frame());
    const auto frame = decoded(encode_envelope(message.envelope()), body);
    REQUIRE(frame.ok());
    CHECK((*frame)->envelope == full_envelope());
    CHECK(body_of(**frame) == body);
  }

  TEST_CASE("received bytes need no alignment") {
    const std::string envelope = " " + encode_envelope(full_envelope());
    const std::string body = " " + body_of(*contrib().frame());
    const auto frame =
        decode_frame(envelope.data() + 1, envelope.size() - 1, body.data() + 1, body.size() - 1);
    REQUIRE(frame.ok());
    CHECK((*frame)->envelope == full_envelope());
  }

  TEST_CASE("sizes that cannot be a message are refused") {
    const std::string envelope = encode_envelope(full_envelope());
    const std::string body = body_of(*contrib().frame());
    CHECK_FALSE(decoded("", body).ok());
    CHECK_FALSE(decoded(envelope, "").ok());
    CHECK_FALSE(decoded(envelope.substr(0, envelope.size() - 1), body).ok());
    CHECK_FALSE(decoded(envelope, body + "x").ok());
    CHECK_FALSE(decoded(std::string(kEnvelopeBytesMax + 8, '\0'), body).ok());
    CHECK_FALSE(decoded(envelope, std::string(kBodyBytesMax + 8, '\0')).ok());
    CHECK(decoded(envelope, std::string(kBodyBytesMax, '\0')).ok());
  }

  TEST_CASE("another protocol version and an unknown type are refused, with the number") {
    capnp::MallocMessageBuilder builder;
    auto envelope = builder.initRoot<wire::Envelope>();
    const auto encoded = [&] {
      const auto words = capnp::messageToFlatArray(builder);
      const auto chars = words.asChars();
      return std::string(chars.begin(), chars.size());
    };
    envelope.setProtocol(kProtocolVersion + 1);
    envelope.setType(static_cast<std::uint16_t>(MessageType::kHello));
    auto result = decoded(encoded(), std::string(8, '\0'));
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().message.find("protocol = " + std::to_string(kProtocolVersion + 1)) !=
          std::string::npos);
    envelope.setProtocol(kProtocolVersion);
    envelope.setType(9999);
    result = decoded(encoded(), std::string(8, '\0'));
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().message.find("type = 9999") != std::string::npos);
    envelope.setType(static_cast<std::uint16_t>(MessageType::kNone));
    CHECK_FALSE(decoded(encoded(), std::string(8, '\0')).ok());
  }

  TEST_CASE("mutated envelopes and bodies are refused or read, and never crash") {
    std::mt19937_64 random(es::test::seed("frame mutations"));
    const std::string envelope = encode_envelope(full_envelope());
    const std::string body = body_of(*contrib().frame());
    std::uint64_t refused_frames = 0, refused_bodies = 0, read = 0, sum = 0;
    for (int i = 0; i < 100000; ++i) {
      const bool bad_envelope = random() % 2 == 0;
      const auto frame = decoded(bad_envelope ? mutated(envelope, random) : envelope,
                                 bad_envelope ? body : mutated(body, random));
      if (!frame.ok()) {
        ++refused_frames;
        continue;
      }
      const auto message = Msg<wire::Contrib>::from_frame(*frame);
      if (!message.ok()) {
        ++refused_frames;
        continue;
      }
      const Result<std::uint64_t> result = (*message).decode(read_all);
      ++(result.ok() ? read : refused_bodies);
      if (result.ok()) sum += *result;
    }
    CHECK(refused_frames > 1000);
    CHECK(refused_bodies > 1000);
    CHECK(read > 1000);
    CHECK(sum > 0);
  }
}

}  // namespace
}  // namespace es

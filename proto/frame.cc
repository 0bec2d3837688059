#include "proto/frame.h"

#include <capnp/serialize.h>

#include <cstring>

#include "envelope.capnp.h"
#include "proto/text_of.h"

namespace es {
namespace {

// A message with deep pointers could exhaust the stack of a reader. The messages of the schemas are
// less deep.
constexpr int kNestingLimit = 32;

// Whether a type may arrive from another process. Types of local messages are unknown here too, so
// that no received message can pass as a local one.
bool is_known(std::uint16_t type) {
  switch (static_cast<MessageType>(type)) {
#define ES_CASE(Name, Number) \
  case MessageType::k##Name:  \
    return true;
    ES_WIRE_MESSAGES(ES_CASE)
#undef ES_CASE
    default:
      return false;
  }
}

kj::Array<capnp::word> copy_words(const void* bytes, std::size_t size) {
  kj::Array<capnp::word> words = kj::heapArray<capnp::word>(size / sizeof(capnp::word));
  // A copy, because a buffer of ZeroMQ need not have the alignment of a word.
  std::memcpy(words.begin(), bytes, size);
  return words;
}

Result<Envelope> read_envelope(const kj::Array<capnp::word>& words) {
  try {
    capnp::ReaderOptions options;
    // In words, so even the largest envelope may be read eight times.
    options.traversalLimitInWords = kEnvelopeBytesMax;
    options.nestingLimit = kNestingLimit;
    const kj::ArrayPtr<const capnp::word> view = words.asPtr();
    capnp::FlatArrayMessageReader reader(view, options);
    const wire::Envelope::Reader e = reader.getRoot<wire::Envelope>();
    // First of all fields, because another version may give the others another meaning.
    if (e.getProtocol() != kProtocolVersion)
      return usage_error("envelope: protocol = " + std::to_string(e.getProtocol()) +
                         ": allowed is " + std::to_string(kProtocolVersion));
    if (!is_known(e.getType()))
      return usage_error("envelope: type = " + std::to_string(e.getType()) + " is unknown");
    Envelope envelope;
    envelope.type = static_cast<MessageType>(e.getType());
    // Throws if the name is not allowed. The catch below turns that into an error, like a damaged
    // envelope.
    envelope.job = name_of(e.getJob(), "job");
    envelope.generation = {e.getGeneration()};
    envelope.step = e.getStep();
    envelope.sender = {e.getSender()};
    envelope.request = e.getRequest();
    return envelope;
  } catch (const std::exception& error) {
    return usage_error("envelope: " + first_line(error.what()));
  }
}

Status check_size(const char* what, std::size_t size, std::size_t max) {
  // Before the bytes are copied, so that a peer cannot make this process allocate more than the
  // limit.
  if (size == 0 || size > max || size % sizeof(capnp::word) != 0)
    return usage_error(std::string(what) + ": " + std::to_string(size) +
                       " bytes: allowed is a multiple of 8 from 8 to " + std::to_string(max));
  return {};
}

}  // namespace

std::string encode_envelope(const Envelope& envelope) {
  // Memory for the usual envelope, without an allocation. Cap'n Proto requires that it is zero.
  capnp::word scratch[64] = {};
  capnp::MallocMessageBuilder builder(kj::arrayPtr(scratch, 64));
  wire::Envelope::Builder e = builder.initRoot<wire::Envelope>();
  e.setProtocol(kProtocolVersion);
  e.setType(static_cast<std::uint16_t>(envelope.type));
  e.setJob(envelope.job);
  e.setGeneration(envelope.generation.value);
  e.setStep(envelope.step);
  e.setSender(envelope.sender.value);
  e.setRequest(envelope.request);
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(builder);
  const auto bytes = words.asChars();
  return {bytes.begin(), bytes.size()};
}

Result<std::shared_ptr<const Frame>> decode_frame(const void* envelope, std::size_t envelope_bytes,
                                                  const void* body, std::size_t body_bytes) {
  ES_RETURN_IF_ERROR(check_size("envelope", envelope_bytes, kEnvelopeBytesMax));
  ES_RETURN_IF_ERROR(check_size("body", body_bytes, kBodyBytesMax));
  // The envelope comes first. A message that it rules out costs no copy of the body.
  Result<Envelope> decoded = read_envelope(copy_words(envelope, envelope_bytes));
  if (!decoded) return decoded.error();
  return std::shared_ptr<const Frame>(
      std::make_shared<const Frame>(Frame{*std::move(decoded), copy_words(body, body_bytes)}));
}

capnp::ReaderOptions reader_options(const Frame& frame) {
  capnp::ReaderOptions options;
  // Four visits of every word allow reading a message several times through one view.
  options.traversalLimitInWords = 4 * frame.body.size() + 1024;
  options.nestingLimit = kNestingLimit;
  return options;
}

std::string first_line(const char* text) {
  const std::string all(text);
  return all.substr(0, all.find('\n'));
}

}  // namespace es

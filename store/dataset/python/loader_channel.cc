#include "store/dataset/python/loader_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "proto/base/check.h"
#include "proto/base/text.h"

namespace es::store {
namespace {

static_assert(std::endian::native == std::endian::little);

// The types of elements by their numbers in `ready`.
constexpr NpyType kTypes[] = {NpyType::kF32, NpyType::kI32, NpyType::kU8, NpyType::kBool};

enum Kind : std::uint32_t { kReady = 1, kSample = 2, kFailed = 3 };

template <class Number>
void put(std::vector<std::uint8_t>& bytes, Number value) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof value);
}

template <class Number>
Number take(std::span<const std::uint8_t>& bytes) {
  Number value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return value;
}

void put_inputs(std::vector<std::uint8_t>& bytes, const std::vector<CapturedInput>& inputs) {
  std::uint64_t at = 0;
  for (const CapturedInput& input : inputs) {
    const std::string& name = input.field.name;
    put(bytes, at);
    put(bytes, static_cast<std::uint32_t>(input.shape.size()));
    put(bytes, static_cast<std::uint32_t>(name.size()));
    for (const std::int64_t extent : input.shape) put(bytes, static_cast<std::uint64_t>(extent));
    bytes.insert(bytes.end(), name.begin(), name.end());
    at += static_cast<std::uint64_t>(input.field.words()) * sizeof(float);
  }
}

std::vector<std::uint8_t> setup_message(const LoaderSetup& setup, const SharedSamples& memory) {
  std::vector<std::uint8_t> bytes;
  put(bytes, kLoaderProtocol);
  put(bytes, memory.samples());
  put(bytes, setup.seed);
  put(bytes, std::uint64_t{memory.sample_bytes()});
  put(bytes, static_cast<std::uint32_t>(setup.buckets.size()));
  put(bytes, static_cast<std::uint32_t>(setup.buckets.front().size()));
  for (const std::vector<CapturedInput>& inputs : setup.buckets) put_inputs(bytes, inputs);
  return bytes;
}

LoaderOutcome broken(std::size_t position, const std::string& found, const std::string& allowed) {
  return {LoaderFault::kBroken, position,
          "it has sent " + found + " where " + allowed + " is allowed"};
}

}  // namespace

struct LoaderChannel::Message {
  static constexpr std::size_t kHeaderBytes = 2 * sizeof(std::uint32_t);
  std::uint32_t kind = 0;
  std::uint32_t position = 0;
  std::vector<std::uint8_t> rest;

  std::string text() const {
    return escaped(std::string_view(reinterpret_cast<const char*>(rest.data()), rest.size()));
  }
  std::string shown() const {
    return "a message of kind " + std::to_string(kind) + ", position " + std::to_string(position) +
           ", with " + std::to_string(rest.size()) + " bytes";
  }
};

bool LoaderChannel::send(std::span<const std::uint8_t> bytes) const {
  ssize_t sent = -1;
  do sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

// Receives one message. `failed` is an outcome, because it may be the answer to everything.
LoaderOutcome LoaderChannel::receive(std::uint32_t limit_s, std::size_t position,
                                     Message& message) const {
  pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  int ready = -1;
  // After a signal the limit begins again; a worker gets no signals that it continues after.
  do ready = ::poll(&waiting, 1, static_cast<int>(limit_s * 1000));
  while (ready < 0 && errno == EINTR);
  if (ready == 0) return {LoaderFault::kSilent, position, {}};
  message.rest.resize(Message::kHeaderBytes + kLoaderTextMax);
  ssize_t got = -1;
  do got = ::recv(socket_.get(), message.rest.data(), message.rest.size(), MSG_TRUNC);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return {LoaderFault::kEnded, position, {}};
  const auto size = static_cast<std::size_t>(got);
  if (size < Message::kHeaderBytes || size > message.rest.size())
    return broken(position, "a message of " + std::to_string(size) + " bytes",
                  "a message of " + std::to_string(Message::kHeaderBytes) + " to " +
                      std::to_string(message.rest.size()) + " bytes");
  std::span<const std::uint8_t> header(message.rest);
  message.kind = take<std::uint32_t>(header);
  message.position = take<std::uint32_t>(header);
  message.rest.erase(message.rest.begin(), message.rest.begin() + Message::kHeaderBytes);
  message.rest.resize(size - Message::kHeaderBytes);
  if (message.kind != kFailed) return {};
  if (message.position != position)
    return broken(position, message.shown(), "position " + std::to_string(position));
  return {LoaderFault::kFailed, position, message.text()};
}

LoaderOutcome LoaderChannel::begin(const LoaderSetup& setup, std::uint32_t limit_s,
                                   LoaderReady& ready) {
  if (!send(setup_message(setup, *memory_))) return {LoaderFault::kEnded, 0, {}};
  Message message;
  LoaderOutcome outcome = receive(limit_s, 0, message);
  if (outcome.fault != LoaderFault::kNone) return outcome;
  constexpr std::size_t kCounts = 2 * sizeof(std::uint64_t);
  if (message.kind != kReady || message.rest.size() != kCounts + setup.buckets.front().size())
    return broken(0, message.shown(), "its number of samples and the types of its arrays");
  std::span<const std::uint8_t> rest(message.rest);
  ready.train_count = take<std::uint64_t>(rest);
  ready.eval_count = take<std::uint64_t>(rest);
  ready.types.clear();
  for (const std::uint8_t type : rest) {
    if (type >= std::size(kTypes))
      return broken(0, "the type " + std::to_string(type),
                    "a type below " + std::to_string(std::size(kTypes)));
    ready.types.push_back(kTypes[type]);
  }
  return {};
}

LoaderOutcome LoaderChannel::fill(const SampleOrigin& from, std::span<const std::uint64_t> samples,
                                  std::uint32_t limit_s, const OnSample& on_sample) {
  ES_CHECK(samples.size() <= memory_->samples());
  std::ranges::copy(samples, memory_->indices().begin());
  std::vector<std::uint8_t> request;
  put(request, std::uint32_t{from.half == Half::kTrain ? 0U : 1U});
  put(request, from.bucket);
  put(request, static_cast<std::uint32_t>(samples.size()));
  put(request, from.epoch);
  if (!send(request)) return {LoaderFault::kEnded, 0, {}};
  Message message;
  for (std::size_t position = 0; position < samples.size(); ++position) {
    LoaderOutcome outcome = receive(limit_s, position, message);
    if (outcome.fault != LoaderFault::kNone) return outcome;
    if (message.kind != kSample || message.position != position || !message.rest.empty())
      return broken(position, message.shown(), "sample " + std::to_string(position));
    const Status taken = on_sample(position, memory_->sample(position));
    if (!taken.ok()) return {LoaderFault::kFailed, position, taken.error().message};
  }
  return {};
}

}  // namespace es::store

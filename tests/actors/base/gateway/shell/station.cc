#include "tests/actors/base/gateway/shell/station.h"

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "proto/base/check.h"

namespace es::actors::test {
namespace {

constexpr std::chrono::seconds kDeadline{60};

}  // namespace

TempDirectory::TempDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "es-gateway-XXXXXX").string();
  ES_CHECK(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::shared_ptr<const Frame> numbered_frame(std::uint64_t number, std::size_t words) {
  Envelope envelope;
  envelope.type = MessageType::kHello;
  envelope.job = "job";
  envelope.request = number;
  auto body = kj::heapArray<capnp::word>(words);
  std::memset(body.asBytes().begin(), static_cast<int>(number & 0xff), body.asBytes().size());
  return std::make_shared<const Frame>(
      Frame{.envelope = std::move(envelope), .body = std::move(body)});
}

TransportOptions quick_options(const PeerId& self, const std::string& endpoint) {
  TransportOptions options;
  options.self = self;
  options.endpoint = endpoint;
  options.heartbeat_interval = std::chrono::milliseconds(20);
  options.dead_after = std::chrono::seconds(30);
  return options;
}

TransportOptions impatient_options(const PeerId& self, const std::string& endpoint) {
  TransportOptions options = quick_options(self, endpoint);
  options.dead_after = std::chrono::milliseconds(200);
  return options;
}

std::size_t Station::Seen::count(const std::string& event) const {
  return static_cast<std::size_t>(std::count(events.begin(), events.end(), event));
}

Station::Station(TransportOptions options) {
  TransportEvents events{
      .on_frame =
          [this](const PeerId& from, std::shared_ptr<const Frame> frame, const auto& sender) {
            if (sender) note_sender(from, *sender);
            const std::string number = std::to_string(frame->envelope.request);
            add("frame " + from + " " + number, std::move(frame));
          },
      .on_peer_up = [this](const PeerId& peer) { add("up " + peer); },
      .on_peer_down = [this](const PeerId& peer) { add("down " + peer); },
      .log =
          [this](const std::string& line) {
            const std::lock_guard lock(mutex_);
            seen_.log.push_back(line);
            changed_.notify_all();
          }};
  Result<std::unique_ptr<Transport>> started =
      Transport::start(std::move(options), std::move(events));
  ES_CHECK_MSG(started.ok(), started.error().message);
  transport_ = *std::move(started);
}

void Station::note_sender(const PeerId& from, const access::Sender& sender) {
  const std::lock_guard lock(mutex_);
  seen_.senders[from] = sender;
}

void Station::add(const std::string& event, std::shared_ptr<const Frame> frame) {
  const std::lock_guard lock(mutex_);
  seen_.events.push_back(event);
  if (frame) seen_.frames.push_back(std::move(frame));
  changed_.notify_all();
}

bool Station::wait(const std::function<bool(const Seen&)>& predicate) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kDeadline, [&] { return predicate(seen_); });
}

bool Station::wait_for(const std::string& event, std::size_t count) {
  return wait([&](const Seen& seen) { return seen.count(event) >= count; });
}

bool Station::wait_frames(std::size_t count) {
  return wait([&](const Seen& seen) { return seen.frames.size() >= count; });
}

bool Station::wait_stats(const std::function<bool(const TransportStats&)>& predicate) {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  std::unique_lock lock(mutex_);
  // A change of a counter causes no notification, so look at every event and at intervals.
  while (!predicate(transport_->stats())) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    changed_.wait_for(lock, std::chrono::milliseconds(5));
  }
  return true;
}

Station::Seen Station::seen() {
  const std::lock_guard lock(mutex_);
  return seen_;
}

std::vector<std::uint64_t> Station::numbers() {
  std::vector<std::uint64_t> numbers;
  for (const std::shared_ptr<const Frame>& frame : seen().frames)
    numbers.push_back(frame->envelope.request);
  return numbers;
}

}  // namespace es::actors::test

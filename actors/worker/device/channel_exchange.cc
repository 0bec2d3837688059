#include "actors/worker/device/channel_exchange.h"

#include <algorithm>
#include <utility>

#include "proto/base/kill_point.h"

namespace es::actors::worker {

using gpu::cuda::Channel;
using gpu::cuda::ChannelEnd;

namespace {

// Pauses between two polls: while a transfer is running, and while waiting for the other end.
constexpr Instant kBusyPollInterval = std::chrono::microseconds(50);
constexpr Instant kQuietPollInterval = std::chrono::milliseconds(2);

}  // namespace

ChannelExchange::ChannelExchange(gpu::ChannelDevice device,
                                 std::shared_ptr<gpu::cuda::DevicePool> pool, Report report)
    : device_(std::move(device)), pool_(std::move(pool)), report_(std::move(report)) {}

ChannelExchange::~ChannelExchange() {
  // A channel could otherwise wait without end for a peer that has died.
  for (auto& [key, open] : open_) open.channel->abort();
}

void ChannelExchange::perform(const ChannelCommand& command, Instant now) {
  const Generation generation = std::visit([](const auto& c) { return c.generation; }, command);
  if (generation < generation_) return;
  if (generation_ < generation) begin_generation(generation);
  std::visit([&](const auto& c) { perform_one(c, now); }, command);
}

void ChannelExchange::begin_generation(Generation generation) {
  generation_ = generation;
  for (auto& [key, open] : open_) close(std::move(open));
  open_.clear();
  // Segments of the old generation are never read again, and a mapping would keep their memory.
  segments_.clear();
}

void ChannelExchange::perform_one(const OfferChannel& command, Instant) {
  const Key key{command.to, ChannelEnd::kSender};
  const Result<std::string> id = device_.library->make_id();
  const Status opened = id ? open(key, *id) : Status(id.error());
  if (!opened.ok())
    return report_(ChannelBroken{generation_, command.to, key.second, opened.error().message});
  report_(ChannelOffered{generation_, command.to, *id});
}

void ChannelExchange::perform_one(const JoinChannel& command, Instant) {
  const Key key{command.from, ChannelEnd::kReceiver};
  // Without an answer the sender's end never connects, and the sender continues to use host memory.
  if (open_.contains(key) || count(ChannelEnd::kReceiver) == channels_max()) return;
  if (const Status opened = open(key, command.id); !opened.ok())
    report_(ChannelBroken{generation_, command.from, key.second, opened.error().message});
}

void ChannelExchange::perform_one(const SendBytes& command, Instant now) {
  const Key key{command.to, ChannelEnd::kSender};
  if (!open_.contains(key)) return;  // it is broken, which has been reported
  // A block in device memory is sent from there. Bytes that are only in the segment are staged
  // piece by piece.
  if (const auto& device = command.bulk.device)
    return queue(key,
                 {.device = std::const_pointer_cast<std::byte>(device),  // it is only read
                  .out = {},
                  .in = nullptr,
                  .bytes = command.bulk.bytes},
                 now);
  const auto bytes = segments_.read(command.bulk.segment, command.bulk.offset, command.bulk.bytes);
  if (!bytes) return break_channel(key, bytes.error().message);
  queue(key, {.device = nullptr, .out = *bytes, .in = nullptr, .bytes = bytes->size()}, now);
}

void ChannelExchange::perform_one(const ReceiveBytes& command, Instant now) {
  const Key key{command.from, ChannelEnd::kReceiver};
  if (!open_.contains(key)) return;
  Transfer transfer{.device = nullptr, .out = {}, .in = nullptr, .bytes = command.bytes};
  // If the pool is full, the bytes are received in host memory. The sender need not know this,
  // because the pieces are the same.
  if (pool_ && command.bytes != 0) transfer.device = pool_->take(command.bytes);
  if (!transfer.device) transfer.in = std::make_shared<std::vector<std::byte>>(command.bytes);
  queue(key, std::move(transfer), now);
}

Status ChannelExchange::open(const Key& key, const std::string& id) {
  ES_RETURN_IF_ERROR(device_.device->begin());
  auto channel = device_.library->open(key.second, id);
  if (!channel) return channel.error();
  Result<Resources> resources = take_resources();
  if (!resources) {
    (*channel)->abort();
    return resources.error();
  }
  Open& open = open_[key];
  open.channel = *std::move(channel);
  open.resources = *resources;
  return {};
}

Result<ChannelExchange::Resources> ChannelExchange::take_resources() {
  if (!free_resources_.empty()) {
    const Resources resources = free_resources_.back();
    free_resources_.pop_back();
    return resources;
  }
  Resources resources;
  const auto stream = device_.device->make_stream();
  if (!stream) return stream.error();
  const auto memory = device_.device->allocate(kChannelPieceBytes, "a channel to another device");
  if (!memory) return memory.error();
  resources.stream = *stream;
  resources.staging = static_cast<std::byte*>(*memory);
  return resources;
}

void ChannelExchange::queue(const Key& key, Transfer transfer, Instant now) {
  Open& open = open_.at(key);
  // A channel that had nothing to do has not stalled. Its time limit begins with this transfer.
  if (open.transfers.empty()) open.last_progress = now;
  open.transfers.push_back(std::move(transfer));
}

std::size_t ChannelExchange::channels_max() const {
  return device_.library->channels_max();
}

std::size_t ChannelExchange::count(ChannelEnd end) const {
  return static_cast<std::size_t>(std::count_if(
      open_.begin(), open_.end(), [&](const auto& entry) { return entry.first.second == end; }));
}

bool ChannelExchange::work(Instant now) {
  reclaim_resources();
  bool any = false;
  // Broken channels are closed after the loop, because closing removes them from open_.
  std::vector<std::pair<Key, std::string>> broken;
  for (auto& [key, open] : open_) {
    const Result<bool> moved = advance(key, open);
    if (!moved) {
      broken.emplace_back(key, moved.error().message);
    } else if (*moved) {
      open.last_progress = now;
      any = true;
    } else if (!open.transfers.empty() && now - open.last_progress > kStallLimit) {
      broken.emplace_back(key, "channel: no progress");
    }
  }
  for (const auto& [key, error] : broken) break_channel(key, error);
  return any;
}

std::optional<Instant> ChannelExchange::poll_interval() const {
  if (open_.empty() && closing_.empty()) return std::nullopt;
  const bool busy = std::any_of(open_.begin(), open_.end(),
                                [](const auto& entry) { return !entry.second.transfers.empty(); });
  return busy ? kBusyPollInterval : kQuietPollInterval;
}

Result<bool> ChannelExchange::advance(const Key& key, Open& open) {
  const Result<Channel::State> state = open.channel->poll();
  if (!state) return state.error();
  // Either the ends are not connected yet, or a piece is still moving.
  if (*state != Channel::State::kIdle) return false;
  bool moved = false;
  if (!std::exchange(open.connected, true) && key.second == ChannelEnd::kSender)
    report_(ChannelReady{generation_, key.first});
  if (open.piece) {
    ES_RETURN_IF_ERROR(end_piece(key, open));
    moved = true;
  }
  if (!open.transfers.empty()) {
    begin_piece(key, open);
    moved = true;
  }
  return moved;
}

void ChannelExchange::begin_piece(const Key& key, Open& open) {
  const Transfer& transfer = open.transfers.front();
  const std::uint64_t bytes = std::min(kChannelPieceBytes, transfer.bytes - transfer.done);
  std::byte* const memory =
      transfer.device ? transfer.device.get() + transfer.done : open.resources.staging;
  // The copy and the channel use one stream, so the piece is sent only after it was copied.
  if (!transfer.device && key.second == ChannelEnd::kSender)
    device_.device->copy_in(open.resources.stream, memory, transfer.out.data() + transfer.done,
                            bytes);
  open.channel->begin(open.resources.stream, memory, bytes);
  open.piece = bytes;
  kill_point("channel.piece");
  if (transfer.device) kill_point("channel.direct");
}

Status ChannelExchange::end_piece(const Key& key, Open& open) {
  Transfer& transfer = open.transfers.front();
  // The copy must be complete before the next piece overwrites the staging memory, and before the
  // bytes are reported.
  if (transfer.in) {
    device_.device->copy_out(open.resources.stream, transfer.in->data() + transfer.done,
                             open.resources.staging, *open.piece);
    ES_RETURN_IF_ERROR(device_.device->synchronise(open.resources.stream));
  }
  transfer.done += *std::exchange(open.piece, std::nullopt);
  if (transfer.done == transfer.bytes) end_transfer(key, open);
  return device_.device->check();
}

void ChannelExchange::end_transfer(const Key& key, Open& open) {
  // The end of this function releases a block that was sent. A received block goes on with the
  // report.
  Transfer transfer = std::move(open.transfers.front());
  open.transfers.pop_front();
  if (key.second == ChannelEnd::kReceiver)
    report_(BytesReceived{generation_, key.first, {std::move(transfer.in), transfer.device}});
}

void ChannelExchange::break_channel(const Key& key, const std::string& error) {
  const auto found = open_.find(key);
  close(std::move(found->second));
  open_.erase(found);
  report_(ChannelBroken{generation_, key.first, key.second, error});
}

// An aborted channel may still use its stream and memory, so they wait in closing_ until it is
// released (reclaim_resources).
void ChannelExchange::close(Open open) {
  open.channel->abort();
  closing_.push_back(std::move(open));
}

void ChannelExchange::reclaim_resources() {
  std::erase_if(closing_, [this](const Open& open) {
    if (!open.channel->released()) return false;
    free_resources_.push_back(open.resources);
    return true;
  });
}

ChannelThread::ChannelThread(gpu::ChannelDevice device, std::shared_ptr<gpu::cuda::DevicePool> pool,
                             ChannelExchange::Report report)
    : exchange_(std::move(device), std::move(pool), std::move(report)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

ChannelThread::~ChannelThread() {
  thread_.request_stop();
}

void ChannelThread::perform(ChannelCommand command) {
  const std::lock_guard lock(mutex_);
  commands_.push_back(std::move(command));
  changed_.notify_one();
}

void ChannelThread::run(const std::stop_token& stop) {
  const auto now = [] { return Instant(std::chrono::steady_clock::now().time_since_epoch()); };
  bool moved = false;
  while (!stop.stop_requested()) {
    for (const ChannelCommand& command : next_commands(stop, moved))
      exchange_.perform(command, now());
    moved = exchange_.work(now());
  }
}

// Returns the queued commands. If the exchange has nothing to do, it waits for a command.
std::vector<ChannelCommand> ChannelThread::next_commands(const std::stop_token& stop, bool moved) {
  std::unique_lock lock(mutex_);
  const auto some = [this] { return !commands_.empty(); };
  const std::optional<Instant> interval = exchange_.poll_interval();
  if (!interval) {
    changed_.wait(lock, stop, some);
  } else if (!moved) {
    changed_.wait_for(lock, stop, *interval, some);
  }
  return std::exchange(commands_, {});
}

}  // namespace es::actors::worker

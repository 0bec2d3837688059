#pragma once
// ChannelExchange: the channels of a worker's device under one generation, and what goes through
// them. ChannelThread gives it a thread of its own, since a step's kernels take the device's.
//
// Bytes that are in device memory go from there, and those that come go to blocks of the pool, with
// no host memory in between. That is the memory of the engine's Device, whose addresses are good
// here too (gpu/cuda/device_pool.h); a part is announced when the host has seen the end of what
// wrote it, and bytes are reported when it has seen their transfer's, so no event of one Device is
// waited for in the other.
//
// Bytes that are in host memory alone, and those that come when the pool has no room, are staged:
// from the segment to device memory, through the channel; from device memory to the host. Either
// end does it as it has to: pieces are the same.
//
// Nothing waits for a peer: work() goes on with what can go on and returns. A transfer without
// progress for kStallLimit breaks its channel; a new generation ends all, whatever their peers do.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "actors/data_plane/segment.h"
#include "actors/protocol/instant.h"
#include "actors/protocol/messages.h"
#include "gpu/channel_device.h"
#include "gpu/cuda/device_pool.h"

namespace es::actors::worker {

// Bytes that are staged at once, and so in device memory for each channel.
inline constexpr std::uint64_t kChannelPieceBytes = std::uint64_t{4} << 20;
inline constexpr Instant kStallLimit = std::chrono::seconds(4);

// --- What it is told. The first of a newer generation gives up all that is open under older ones;
// then those are ignored.

struct OfferChannel {  // make the sender's end. Answer: ChannelOffered or ChannelBroken
  Generation generation;
  Incarnation to;
};
struct JoinChannel {  // make the receiver's end; ignored beyond channels_max()
  Generation generation;
  Incarnation from;
  std::string id;
};
// From `bulk.device`, or else from the segment, which is this worker's own. That must hold the
// bytes until the receiver has them; a device block is held here.
struct SendBytes {
  Generation generation;
  Incarnation to;
  protocol::Bulk bulk;
};
struct ReceiveBytes {  // answer: BytesReceived, in the order in which they were asked for
  Generation generation;
  Incarnation from;
  std::uint64_t bytes = 0;
};
struct BeginGeneration {
  Generation generation;
};
using ChannelCommand =
    std::variant<OfferChannel, JoinChannel, SendBytes, ReceiveBytes, BeginGeneration>;

// --- What it reports.

struct ChannelOffered {  // tell the receiver
  Generation generation;
  Incarnation to;
  std::string id;
};
struct ChannelReady {  // the sender's end has met the receiver's
  Generation generation;
  Incarnation to;
};
struct BytesReceived {
  Generation generation;
  Incarnation from;
  protocol::Arrived bytes;
};
// This end is closed; what was not reported is lost.
struct ChannelBroken {
  Generation generation;
  Incarnation peer;
  gpu::cuda::ChannelEnd end = gpu::cuda::ChannelEnd::kSender;  // this one
  std::string error;
};
using ChannelEvent = std::variant<ChannelOffered, ChannelReady, BytesReceived, ChannelBroken>;

// Threads: one, which the device takes for its own.
class ChannelExchange {
 public:
  using Report = std::function<void(ChannelEvent)>;
  // `pool`: of the same GPU; nullptr: all is received in host memory. REQUIRES: `device` has both
  // parts.
  ChannelExchange(gpu::ChannelDevice device, std::shared_ptr<gpu::cuda::DevicePool> pool,
                  Report report);
  ~ChannelExchange();
  ChannelExchange(const ChannelExchange&) = delete;
  ChannelExchange& operator=(const ChannelExchange&) = delete;

  // Of either end, at a time (gpu/cuda/channel.h).
  std::size_t channels_max() const;
  void perform(const ChannelCommand& command, Instant now);
  // True: something has moved, call it again at once.
  bool work(Instant now);
  // How soon work() may have something to do again; none: not before the next command.
  std::optional<Instant> rest() const;

 private:
  // What a channel works with on the device. Reused: device memory lives as long as the device.
  struct Lane {
    gpu::cuda::Stream stream;
    std::byte* staging = nullptr;
  };
  // One of the first three is set.
  struct Transfer {
    gpu::cuda::DevicePool::Block device;         // to send from, or to receive into
    std::span<const std::byte> out;              // to send, staged
    std::shared_ptr<std::vector<std::byte>> in;  // to receive into, staged
    std::uint64_t bytes = 0, done = 0;
  };
  struct Open {
    std::unique_ptr<gpu::cuda::Channel> channel;
    Lane lane;
    std::deque<Transfer> transfers;
    std::optional<std::uint64_t> piece{};  // bytes of the first transfer that are in the channel
    bool met = false;
    Instant last_progress{};
  };
  using Key = std::pair<Incarnation, gpu::cuda::ChannelEnd>;

  void perform_one(const OfferChannel& command, Instant now);
  void perform_one(const JoinChannel& command, Instant now);
  void perform_one(const SendBytes& command, Instant now);
  void perform_one(const ReceiveBytes& command, Instant now);
  void perform_one(const BeginGeneration&, Instant) {}
  void begin_generation(Generation generation);
  Status open(const Key& key, const std::string& id);
  void queue(const Key& key, Transfer transfer, Instant now);
  Result<Lane> take_lane();
  Result<bool> go_on(const Key& key, Open& open);
  Status end_piece(const Key& key, Open& open);
  void begin_piece(const Key& key, Open& open);
  void end_transfer(const Key& key, Open& open);
  void close(Open open);
  void collect_lanes();
  std::size_t count(gpu::cuda::ChannelEnd end) const;
  void break_channel(const Key& key, const std::string& error);

  gpu::ChannelDevice device_;
  std::shared_ptr<gpu::cuda::DevicePool> pool_;
  Report report_;
  Generation generation_;  // of all that is open
  std::map<Key, Open> open_;
  std::vector<Open> closing_;  // aborted, not released yet; hold their transfers' blocks
  std::vector<Lane> free_;
  SegmentCache segments_;  // own mappings: they outlive the device half's
};

class ChannelThread {
 public:
  // As ChannelExchange; `report` is called on the thread.
  ChannelThread(gpu::ChannelDevice device, std::shared_ptr<gpu::cuda::DevicePool> pool,
                ChannelExchange::Report report);
  ~ChannelThread();
  ChannelThread(const ChannelThread&) = delete;
  ChannelThread& operator=(const ChannelThread&) = delete;

  // Thread-safe: it does not change.
  std::size_t channels_max() const { return exchange_.channels_max(); }
  // Returns at once. In order. Thread-safe.
  void perform(ChannelCommand command);

 private:
  void run(const std::stop_token& stop);
  std::vector<ChannelCommand> next_commands(const std::stop_token& stop, bool moved);

  ChannelExchange exchange_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<ChannelCommand> commands_;
  std::jthread thread_;  // last: ends before the rest goes
};

}  // namespace es::actors::worker

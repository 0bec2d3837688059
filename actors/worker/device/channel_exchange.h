#pragma once
// ChannelExchange runs the channels of a worker's device under one generation and moves data
// through them. ChannelThread runs it on a thread of its own, since the kernels of a step occupy
// the device's thread.
//
// Bytes in device memory are sent from there, and bytes that arrive go into blocks of the pool,
// without a copy in host memory. The pool is memory of the engine's Device; its addresses are valid
// in the Device of this class too (gpu/cuda/device_pool.h). Neither Device waits for an event of
// the other one, because the host orders their work: a part is announced only after the host has
// seen the end of the kernel that wrote it, and received bytes are reported only after the host has
// seen the end of their transfer.
//
// Some bytes are staged instead: those to send that are only in host memory, and those received
// while the pool is full. The sender copies a piece from the segment to device memory and then
// sends it; the receiver copies a received piece from device memory to the host. Each end decides
// this for itself, because the pieces are the same in both cases.
//
// No call waits for a peer: work() continues whatever can continue, and returns. A transfer without
// progress for kStallLimit breaks its channel. A new generation ends all channels, whatever their
// peers do.
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

#include "actors/base/data_plane/segment.h"
#include "actors/base/protocol/core/instant.h"
#include "actors/base/protocol/core/messages.h"
#include "gpu/cuda/device_pool.h"
#include "gpu/engine/channel_device.h"

namespace es::actors::worker {

// The number of bytes that are staged at once; each channel has this much staging memory on the
// device.
inline constexpr std::uint64_t kChannelPieceBytes = std::uint64_t{4} << 20;
inline constexpr Instant kStallLimit = std::chrono::seconds(4);

// --- Commands. The first command of a newer generation closes everything that is open under older
// generations. Commands of older generations are then ignored.

struct OfferChannel {  // create the sender's end; the answer is ChannelOffered or ChannelBroken
  Generation generation;
  Incarnation to;
};
struct JoinChannel {  // create the receiver's end; ignored if channels_max() of them are open
  Generation generation;
  Incarnation from;
  std::string id;
};
// Sends from `bulk.device` if it is set, and otherwise from the segment, which belongs to this
// worker. The segment must hold the bytes until the receiver has them. A device block is kept alive
// here.
struct SendBytes {
  Generation generation;
  Incarnation to;
  protocol::Bulk bulk;
};
struct ReceiveBytes {  // the answer is BytesReceived, in the order of these commands
  Generation generation;
  Incarnation from;
  std::uint64_t bytes = 0;
};
struct BeginGeneration {
  Generation generation;
};
using ChannelCommand =
    std::variant<OfferChannel, JoinChannel, SendBytes, ReceiveBytes, BeginGeneration>;

// --- Events.

struct ChannelOffered {  // send this id to the receiver
  Generation generation;
  Incarnation to;
  std::string id;
};
struct ChannelReady {  // the sender's end is connected to the receiver's end
  Generation generation;
  Incarnation to;
};
struct BytesReceived {
  Generation generation;
  Incarnation from;
  protocol::Arrived bytes;
};
// This end is closed. What has not been reported is lost.
struct ChannelBroken {
  Generation generation;
  Incarnation peer;
  gpu::cuda::ChannelEnd end = gpu::cuda::ChannelEnd::kSender;  // which end this worker has
  std::string error;
};
using ChannelEvent = std::variant<ChannelOffered, ChannelReady, BytesReceived, ChannelBroken>;

// Not thread-safe. All calls come from one thread, to which the device is bound.
class ChannelExchange {
 public:
  using Report = std::function<void(ChannelEvent)>;
  // `pool` is the pool of the same GPU; if it is nullptr, all data is received in host memory.
  // REQUIRES: `device` has a device and a library.
  ChannelExchange(gpu::ChannelDevice device, std::shared_ptr<gpu::cuda::DevicePool> pool,
                  Report report);
  ~ChannelExchange();
  ChannelExchange(const ChannelExchange&) = delete;
  ChannelExchange& operator=(const ChannelExchange&) = delete;

  // The largest number of open channels for each of the two ends (gpu/cuda/channel.h).
  std::size_t channels_max() const;
  void perform(const ChannelCommand& command, Instant now);
  // Moves data. If it returns true, data has moved, and the caller should call it again at once.
  bool work(Instant now);
  // The time after which work() may have something to do again. No value means that it has nothing
  // to do before the next command.
  std::optional<Instant> poll_interval() const;

 private:
  // The device resources of a channel. They are reused, since device memory lives as long as the
  // device.
  struct Resources {
    gpu::cuda::Stream stream;
    std::byte* staging = nullptr;
  };
  // Exactly one of the first three fields is set.
  struct Transfer {
    gpu::cuda::DevicePool::Block device;         // a block to send from or to receive into
    std::span<const std::byte> out;              // bytes to send, staged
    std::shared_ptr<std::vector<std::byte>> in;  // buffer to receive into, staged
    std::uint64_t bytes = 0, done = 0;
  };
  struct Open {
    std::unique_ptr<gpu::cuda::Channel> channel;
    Resources resources;
    std::deque<Transfer> transfers;
    std::optional<std::uint64_t> piece{};  // size of the piece that is in the channel now
    bool connected = false;
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
  Result<Resources> take_resources();
  Result<bool> advance(const Key& key, Open& open);
  Status end_piece(const Key& key, Open& open);
  void begin_piece(const Key& key, Open& open);
  void end_transfer(const Key& key, Open& open);
  void close(Open open);
  void reclaim_resources();
  std::size_t count(gpu::cuda::ChannelEnd end) const;
  void break_channel(const Key& key, const std::string& error);

  gpu::ChannelDevice device_;
  std::shared_ptr<gpu::cuda::DevicePool> pool_;
  Report report_;
  Generation generation_;  // the generation of everything that is open
  std::map<Key, Open> open_;
  // aborted but not released yet; they keep the blocks of their transfers alive
  std::vector<Open> closing_;
  std::vector<Resources> free_resources_;
  SegmentCache segments_;  // mappings of its own, because they outlive those of the device half
};

class ChannelThread {
 public:
  // The parameters are those of ChannelExchange; `report` is called on the new thread.
  ChannelThread(gpu::ChannelDevice device, std::shared_ptr<gpu::cuda::DevicePool> pool,
                ChannelExchange::Report report);
  ~ChannelThread();
  ChannelThread(const ChannelThread&) = delete;
  ChannelThread& operator=(const ChannelThread&) = delete;

  // Thread-safe, because the value never changes.
  std::size_t channels_max() const { return exchange_.channels_max(); }
  // Queues a command and returns at once. Commands are performed in order. Thread-safe.
  void perform(ChannelCommand command);

 private:
  void run(const std::stop_token& stop);
  std::vector<ChannelCommand> next_commands(const std::stop_token& stop, bool moved);

  ChannelExchange exchange_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<ChannelCommand> commands_;
  std::jthread thread_;  // the last member, so that it ends before the others are destroyed
};

}  // namespace es::actors::worker

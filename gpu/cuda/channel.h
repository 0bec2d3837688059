#pragma once
// Channel: moves bytes from the memory of one device to that of another, in another process; one
// direction. It never adds.
//
// The two ends find each other by an id, which the sender makes and the receiver is told. A FIFO:
// the n-th transfer of one end meets the n-th of the other, and both name the same number of bytes.
// No call waits for the peer, whatever that does: it may be slow, frozen or dead.
//
// Why nothing can lock, in whatever order any number of workers send:
//   - Each ordered pair of workers has a channel of its own (with NCCL a communicator of two), so
//     there is no order between the transfers of two channels that processes would have to agree
//     on. Within one channel the order is the sender's: it announces its transfers in messages that
//     arrive in their order, and the receiver takes them as they are announced.
//   - A send waits for nothing but its receive, a receive for nothing but its send. The send was
//     begun, or follows those before it in the same channel, when it was announced.
//   - One transfer of a channel is on the device at a time, on a stream of its own, so nothing that
//     another process waits for stands behind one that waits. kChannelsMax keeps
//     the streams of a device below its hardware queues (32 are asked for), and a transfer has few
//     blocks: those of all channels have at most half of the multiprocessors, so that they all run
//     at the same time, and the kernels of a step beside them (channels_each_way).
//   - Nobody allocates or frees device memory that a transfer could be waited for by: memory lives
//     as long as its Device.
//
// Threads: one at a time. Errors: values; after one the channel is of no use but to be aborted.
#include <cstddef>
#include <memory>
#include <string>

#include "gpu/cuda/device.h"
#include "proto/base/result.h"

namespace es::gpu::cuda {

// Blocks of a transfer on a device. Each may need a multiprocessor of its own.
inline constexpr int kTransferBlocks = 2;

// Channels of one device at a time, in each direction, at most.
inline constexpr std::size_t kChannelsMax = 12;
// Of a device with that many multiprocessors: 5 of a T4's 40, 12 from 96 on.
std::size_t channels_each_way(int multiprocessors);

enum class ChannelEnd { kSender, kReceiver };

class Channel {
 public:
  enum class State {
    kOpening,  // the other end has not been met yet
    kIdle,     // the last transfer is done: what was sent, or received, may be used
    kBusy,
  };
  virtual ~Channel() = default;

  // Goes on with what can go on. Error (failure): the other end is gone, or the library's.
  virtual Result<State> poll() = 0;
  // Begins a transfer of these bytes of device memory, after what is queued on the stream; poll()
  // tells its end. REQUIRES: the last poll() said kIdle; memory and stream are the channel's until
  // the next kIdle or released().
  virtual void begin(Stream stream, void* memory, std::size_t bytes) = 0;

  // Gives the channel up, at once. What runs is ended in the background.
  virtual void abort() = 0;
  // After abort(): nothing uses the memory and the stream any more.
  virtual bool released() const = 0;
};

// Makes the channels of one device, which outlives it.
class ChannelLibrary {
 public:
  virtual ~ChannelLibrary() = default;
  virtual std::string kind() const = 0;  // "nccl 2.28.9": ends of equal kinds can meet
  // The physical device; two workers on one device cannot be joined.
  virtual std::string device() const = 0;
  // Channels of the device at a time, in each direction; at most kChannelsMax.
  virtual std::size_t channels_max() const = 0;
  virtual Result<std::string> make_id() = 0;  // bytes; for one channel
  // Error (failure): the library's.
  virtual Result<std::unique_ptr<Channel>> open(ChannelEnd end, const std::string& id) = 0;
};

// NCCL on a GPU; nullptr: it is not installed. Error (failure): it is there and does not work.
// REQUIRES: a device of open_gpu(gpu_index).
Result<std::unique_ptr<ChannelLibrary>> open_nccl(Device& device, int gpu_index);
// Sockets of this machine between host memory: what stands there for NCCL with open_host_device().
// `device`, `host`: texts that tell devices and machines apart.
std::unique_ptr<ChannelLibrary> open_host_channels(std::string device, const std::string& host);

}  // namespace es::gpu::cuda

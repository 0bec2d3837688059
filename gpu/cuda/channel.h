#pragma once
// Channel: moves bytes from the memory of one device to the memory of another device, in another
// process, in one direction. It never adds.
//
// The two ends find each other by an id, which the sender creates and the receiver is told. A
// channel is a FIFO: the n-th transfer of one end meets the n-th transfer of the other, and both
// name the same number of bytes. No call waits for the peer, which may be slow, frozen or dead.
//
// Why no deadlock is possible, in whatever order any number of workers send:
//   - Each ordered pair of workers has its own channel (with NCCL a communicator of two). So there
//     is no order between the transfers of two channels on which processes would have to agree.
//     Within a channel the order is the sender's: it announces its transfers in messages that
//     arrive in order, and the receiver takes them as they are announced.
//   - A send waits only for its receive, and a receive only for its send. When a send is announced,
//     it has begun or stands behind earlier sends of the same channel.
//   - A channel has one transfer on the device at a time, on a stream of its own. So no work for
//     which another process waits stands behind work that waits. kChannelsMax keeps the number of
//     streams of a device below its hardware queues (32 are requested). A transfer has few blocks:
//     those of all channels use at most half of the multiprocessors, so that all transfers run at
//     the same time, and the kernels of a step beside them (channels_each_way).
//   - No thread allocates or frees device memory while a transfer could wait for that call: memory
//     lives as long as its Device.
//
// Threads: one at a time. Errors: values. After an error the channel can only be aborted.
#include <cstddef>
#include <memory>
#include <string>

#include "gpu/cuda/device.h"
#include "proto/base/result.h"

namespace es::gpu::cuda {

// Number of blocks of a transfer on a device. Each may need a multiprocessor of its own.
inline constexpr int kTransferBlocks = 2;

// Largest number of channels of one device at a time, in each direction.
inline constexpr std::size_t kChannelsMax = 12;
// The limit for a device with this number of multiprocessors: 5 for the 40 of a T4, 12 from 96 on.
std::size_t channels_each_way(int multiprocessors);

enum class ChannelEnd { kSender, kReceiver };

class Channel {
 public:
  enum class State {
    kOpening,  // the other end has not connected yet
    kIdle,     // the last transfer is done: the bytes that were sent or received may be used
    kBusy,
  };
  virtual ~Channel() = default;

  // Continues what can continue. Error (failure): the other end is gone, or an error of the
  // library.
  virtual Result<State> poll() = 0;
  // Begins a transfer of these bytes of device memory, after everything that is queued on the
  // stream. poll() reports its end. REQUIRES: the last poll() returned kIdle. Memory and stream
  // belong to the channel until the next kIdle or until released() returns true.
  virtual void begin(Stream stream, void* memory, std::size_t bytes) = 0;

  // Gives the channel up immediately. A running transfer is ended in the background.
  virtual void abort() = 0;
  // After abort(): returns whether nothing uses the memory and the stream any more.
  virtual bool released() const = 0;
};

// Creates the channels of one device. The device must outlive the library.
class ChannelLibrary {
 public:
  virtual ~ChannelLibrary() = default;
  virtual std::string kind() const = 0;  // for example "nccl 2.28.9"; ends of equal kinds can meet
  // Identifies the physical device. Two workers on one device cannot be connected.
  virtual std::string device() const = 0;
  // Largest number of channels of the device at a time, in each direction; at most kChannelsMax.
  virtual std::size_t channels_max() const = 0;
  virtual Result<std::string> make_id() = 0;  // an id for one channel; arbitrary bytes
  // Error (failure): the library's error.
  virtual Result<std::unique_ptr<Channel>> open(ChannelEnd end, const std::string& id) = 0;
};

// Opens NCCL on a GPU; nullptr: it is not installed. Error (failure): it is installed and does not
// work. REQUIRES: `device` comes from open_gpu(gpu_index).
Result<std::unique_ptr<ChannelLibrary>> open_nccl(Device& device, int gpu_index);
// Opens channels that use sockets of this machine between host memories. They replace NCCL if the
// device is open_host_device(). `device` and `host` are texts that distinguish devices and
// machines.
std::unique_ptr<ChannelLibrary> open_host_channels(std::string device, const std::string& host);

}  // namespace es::gpu::cuda

#pragma once
// LoaderChannel is what a worker and one loader process say to each other
// (python/easyscale/data/dataset_loader.py is the other side).
//
// The messages travel over a Unix socket that keeps their boundaries (SOCK_SEQPACKET). Numbers are
// little-endian. Samples travel through SharedSamples.
//
//   to the loader process
//     setup    u32 version of this protocol, u32 samples of the shared memory, u64 seed, u64 bytes
//              of a sample, u32 length buckets, u32 inputs; for each bucket and each of its inputs:
//              u64 its first byte in a sample, u32 axes, u32 bytes of its name, u64 for each axis,
//              the name. Answer: ready, or failed.
//     fill     u32 half (0 training, 1 evaluation), u32 bucket to whose shapes the samples are
//              padded, u32 samples, u64 epoch. The indices are in the shared memory. Answer:
//              `sample` for each position in ascending order, or failed.
//   from the loader process
//     u32 kind, u32 position, and then
//     ready    u64 training samples, u64 evaluation samples, u8 type of each input (kTypes)
//     sample   nothing: the sample at this position is in the shared memory
//     failed   a text: why the sample at this position cannot be computed
//
// The loader process runs code of a user. Whatever it sends is checked, and a message that is not
// expected ends the exchange. One thread uses a channel at a time.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proto/base/file_descriptor.h"
#include "store/dataset/arrays/npy_header.h"
#include "store/dataset/captured_inputs.h"
#include "store/dataset/python/shared_samples.h"
#include "store/dataset/record_source.h"

namespace es::store {

inline constexpr std::uint32_t kLoaderProtocol = 2;
inline constexpr std::size_t kLoaderTextMax = 16 << 10;  // the longest text of `failed`

// What ends an exchange.
enum class LoaderFault {
  kNone,
  kEnded,   // the process has closed the socket
  kSilent,  // no message within the limit
  kBroken,  // a message that is not allowed
  kFailed,  // the process says why, or the receiver of the samples
};

struct LoaderOutcome {
  LoaderFault fault = LoaderFault::kNone;
  std::size_t position = 0;  // of the sample that was not received
  std::string text;          // kBroken, kFailed
};

// [bucket][input]: the inputs with the shapes of each length bucket.
using BucketInputs = std::vector<std::vector<CapturedInput>>;

// Where the samples of a mini-batch come from, and the bucket to whose shapes they are padded.
struct SampleOrigin {
  Half half = Half::kTrain;
  std::uint32_t bucket = 0;
  std::uint64_t epoch = 0;
};

struct LoaderSetup {
  std::uint64_t seed = 0;
  const BucketInputs& buckets;  // at least one
};

// What a loader process says about its dataset.
struct LoaderReady {
  std::uint64_t train_count = 0;
  std::uint64_t eval_count = 0;
  std::vector<NpyType> types;  // of the elements of each input
};

class LoaderChannel {
 public:
  LoaderChannel(int socket, std::unique_ptr<SharedSamples> memory)
      : socket_(socket), memory_(std::move(memory)) {}

  // Waits at most `limit_s` seconds.
  LoaderOutcome begin(const LoaderSetup& setup, std::uint32_t limit_s, LoaderReady& ready);

  // Receives a sample; its bytes are those of SharedSamples::sample. An error ends the exchange.
  using OnSample = std::function<Status(std::size_t position, std::span<const std::uint8_t>)>;
  // Waits at most `limit_s` seconds for each sample. REQUIRES: there are not more samples than the
  // shared memory has.
  LoaderOutcome fill(const SampleOrigin& from, std::span<const std::uint64_t> samples,
                     std::uint32_t limit_s, const OnSample& on_sample);

 private:
  struct Message;
  bool send(std::span<const std::uint8_t> bytes) const;
  LoaderOutcome receive(std::uint32_t limit_s, std::size_t position, Message& message) const;

  FileDescriptor socket_;
  std::unique_ptr<SharedSamples> memory_;
};

}  // namespace es::store

#pragma once
// LoaderPool owns the loader processes of a Python dataset.
//
// A process is started when all others are busy, so there are as many as threads that fill samples
// at the same time. If a process ends, another one computes the samples again: a sample is a pure
// function of its number, so no bit depends on it. A dataset that raises, that is silent for too
// long or whose process ends again and again is an error that names the sample.
//
// Thread-safe. A thread of its own starts the processes, because the kernel ends them with the
// thread that has started them, and the threads that fill samples may end earlier.
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "store/dataset/arrays/input_conversion.h"
#include "store/dataset/python/loader_process.h"

namespace es::store {

// The number of processes that compute one sample after others have ended while they computed it.
inline constexpr int kLoaderRestartsMax = 3;
// A process that has not loaded its dataset after this time is silent for too long. Importing large
// packages from a slow disk may take minutes.
inline constexpr std::uint32_t kLoaderStartMax_s = 300;

struct LoaderPoolOptions {
  LoaderCommand command;
  std::uint64_t seed = 0;
  std::uint32_t batch = 1;      // samples of the shared memory of a process
  std::uint32_t timeout_s = 1;  // the longest time for one sample
  std::uint64_t train_count = 0, eval_count = 0;
  BucketInputs buckets;
  // The name of a sample in errors.
  std::function<std::string(Half, std::uint64_t index)> name;
};

class LoaderPool {
 public:
  explicit LoaderPool(LoaderPoolOptions options);
  ~LoaderPool();
  LoaderPool(const LoaderPool&) = delete;
  LoaderPool& operator=(const LoaderPool&) = delete;

  // Receives the arrays of a sample, each with its conversion; a sample may come again. An error is
  // one of the sample, and its name is put before it.
  using OnSample =
      std::function<Status(std::size_t position, std::span<const InputConversion> conversions,
                           std::span<const std::uint8_t> bytes)>;
  // Error (usage): names the sample and says what is wrong with it. REQUIRES: at most
  // LoaderPoolOptions::batch samples.
  Status fill(const SampleOrigin& from, std::span<const std::uint64_t> samples,
              const OnSample& on_sample);

 private:
  struct Loader {
    std::unique_ptr<LoaderProcess> process;
    std::vector<std::vector<InputConversion>> conversions;  // [bucket][input]
  };
  class Starter;

  Result<Loader> take();
  Result<Loader> start();
  Result<Loader> start_once(LoaderFault& fault);
  Status check_counts(const LoaderReady& ready) const;
  Result<std::vector<InputConversion>> conversions(const LoaderReady& ready,
                                                   const std::vector<CapturedInput>& inputs) const;
  Error error_of(const LoaderOutcome& outcome, LoaderProcess& process, std::uint32_t limit_s) const;

  LoaderPoolOptions options_;
  std::unique_ptr<Starter> starter_;
  std::mutex mutex_;
  std::vector<Loader> idle_;
};

}  // namespace es::store

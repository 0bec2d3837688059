#include "store/dataset/python/loader_pool.h"

#include <algorithm>
#include <utility>

#include "store/field_error.h"

namespace es::store {
namespace {

constexpr const char* kEndedEarly =
    "; it needs the package easyscale, and what it has printed is in the log of its worker";

std::size_t words_of(const std::vector<CapturedInput>& inputs) {
  std::size_t words = 0;
  for (const CapturedInput& input : inputs) words += static_cast<std::size_t>(input.field.words());
  return words;
}

}  // namespace

// The thread that starts processes, one after the other.
class LoaderPool::Starter {
 public:
  using Started = Result<std::unique_ptr<LoaderProcess>>;

  Starter() : thread_([this] { run(); }) {}
  ~Starter() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Starter(const Starter&) = delete;
  Starter& operator=(const Starter&) = delete;

  Started start(const LoaderCommand& command, std::unique_ptr<SharedSamples> memory) {
    const std::lock_guard one_at_a_time(callers_);
    std::unique_lock lock(mutex_);
    command_ = &command;
    memory_ = std::move(memory);
    changed_.notify_all();
    changed_.wait(lock, [this] { return started_.has_value(); });
    Started started = *std::move(started_);
    started_.reset();
    return started;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ends_ || command_ != nullptr; });
      if (ends_) return;
      started_ = LoaderProcess::start(*std::exchange(command_, nullptr), std::move(memory_));
      changed_.notify_all();
    }
  }

  std::mutex callers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const LoaderCommand* command_ = nullptr;
  std::unique_ptr<SharedSamples> memory_;
  std::optional<Started> started_;
  bool ends_ = false;
  std::thread thread_;  // the last member: it uses the others
};

LoaderPool::LoaderPool(LoaderPoolOptions options) : options_(std::move(options)) {}

LoaderPool::~LoaderPool() = default;

Error LoaderPool::error_of(const LoaderOutcome& outcome, LoaderProcess& process,
                           std::uint32_t limit_s) const {
  switch (outcome.fault) {
    case LoaderFault::kEnded:
      return usage_error("its loader process, " + options_.command.python + ", " + process.end());
    case LoaderFault::kSilent:
      return usage_error("its loader process has not answered within " + std::to_string(limit_s) +
                         " s (data.timeout_s = " + std::to_string(options_.timeout_s) + ")");
    case LoaderFault::kBroken:
      return usage_error("its loader process is out of order: " + outcome.text);
    default:
      return usage_error(outcome.text);
  }
}

// Compares the lengths with those of the job.
Status LoaderPool::check_counts(const LoaderReady& ready) const {
  const auto same = [](const char* field, std::uint64_t job, std::uint64_t found) {
    return job == found ? Status()
                        : bad_field("job", field, std::to_string(job),
                                    std::to_string(found) + ", the length of the dataset");
  };
  ES_RETURN_IF_ERROR(same("data.samples", options_.train_count, ready.train_count));
  return same("data.eval_samples", options_.eval_count, ready.eval_count);
}

// Compares the types of the arrays with the inputs.
Result<std::vector<InputConversion>> LoaderPool::conversions(
    const LoaderReady& ready, const std::vector<CapturedInput>& inputs) const {
  std::vector<InputConversion> all;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto conversion = InputConversion::create(options_.command.dataset, ready.types[i], inputs[i]);
    if (!conversion) return conversion.error();
    all.push_back(*std::move(conversion));
  }
  return all;
}

Result<LoaderPool::Loader> LoaderPool::start_once(LoaderFault& fault) {
  std::size_t words = 0;
  for (const std::vector<CapturedInput>& inputs : options_.buckets)
    words = std::max(words, words_of(inputs));
  auto memory = SharedSamples::create(options_.batch, words * sizeof(float));
  if (!memory) return memory.error();
  auto process = starter_->start(options_.command, *std::move(memory));
  if (!process) return process.error();
  const std::uint32_t limit_s = std::max(options_.timeout_s, kLoaderStartMax_s);
  LoaderReady ready;
  const LoaderOutcome outcome =
      (*process)->channel().begin({options_.seed, options_.buckets}, limit_s, ready);
  fault = outcome.fault;
  if (fault != LoaderFault::kNone)
    return usage_error(options_.command.dataset + ": the dataset cannot be loaded: " +
                       error_of(outcome, **process, limit_s).message +
                       (fault == LoaderFault::kEnded ? kEndedEarly : ""));
  ES_RETURN_IF_ERROR(check_counts(ready));
  Loader loader{.process = *std::move(process), .conversions = {}};
  for (const std::vector<CapturedInput>& inputs : options_.buckets) {
    auto conversions = this->conversions(ready, inputs);
    if (!conversions) return conversions.error();
    loader.conversions.push_back(*std::move(conversions));
  }
  return loader;
}

Result<LoaderPool::Loader> LoaderPool::start() {
  {
    const std::lock_guard lock(mutex_);
    if (!starter_) starter_ = std::make_unique<Starter>();
  }
  for (int restarts = 0;; ++restarts) {
    LoaderFault fault = LoaderFault::kNone;
    auto loader = start_once(fault);
    if (loader || fault != LoaderFault::kEnded || restarts == kLoaderRestartsMax) return loader;
  }
}

Result<LoaderPool::Loader> LoaderPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Loader loader = std::move(idle_.back());
      idle_.pop_back();
      return loader;
    }
  }
  return start();
}

Status LoaderPool::fill(const SampleOrigin& from, std::span<const std::uint64_t> samples,
                        const OnSample& on_sample) {
  for (int restarts = 0;; ++restarts) {
    auto loader = take();
    if (!loader) return loader.error();
    const auto receive = [&](std::size_t position, std::span<const std::uint8_t> bytes) {
      return on_sample(position, loader->conversions[from.bucket], bytes);
    };
    const LoaderOutcome outcome =
        loader->process->channel().fill(from, samples, options_.timeout_s, receive);
    if (outcome.fault == LoaderFault::kNone) {
      const std::lock_guard lock(mutex_);
      idle_.push_back(*std::move(loader));
      return {};
    }
    if (outcome.fault == LoaderFault::kEnded && restarts < kLoaderRestartsMax) continue;
    return usage_error(options_.name(from.half, samples[outcome.position]) + ": " +
                       error_of(outcome, *loader->process, options_.timeout_s).message +
                       (restarts > 0 ? ", as " + std::to_string(restarts) + " before it" : ""));
  }
}

}  // namespace es::store

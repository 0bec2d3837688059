#include "actors/worker/device/version_writer.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <new>
#include <utility>

#include "actors/worker/device/periodic_checkpoint.h"

namespace es::actors::worker {
namespace {

constexpr const char* kThreadName = "checkpoint";
constexpr int kLowPriority = 10;

// Sets the nice value of this thread only. The thread then gets a tenth of a processor that another
// thread wants. With the lowest priority it would get 1.5 %: on a machine with much other work a
// checkpoint took minutes, and so did the end of a killed process, whose memory is freed by the
// thread that ends last.
void become_unimportant() {
  ::pthread_setname_np(::pthread_self(), kThreadName);
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowPriority);
}

Result<Written> write_if_memory_suffices(const Snapshot& snapshot, const WriteVersion& asked) {
  try {
    return write_version(snapshot, asked);
  } catch (const std::bad_alloc&) {
    return failure(asked.directory + ": not enough memory to write a checkpoint");
  }
}

CheckpointFinished finish(const Snapshot& snapshot, const WriteVersion& asked) {
  CheckpointFinished done{asked.request, asked.directory, snapshot.replica->version(), {}, {}};
  const auto begin = std::chrono::steady_clock::now();
  const Result<Written> written = write_if_memory_suffices(snapshot, asked);
  done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  snapshot.replica->give_up("the checkpoint is written or given up");  // ends its copying
  if (written) {
    done.path = written->path.string();
    done.digests = written->digests;
  } else {
    done.error = written.error().message;
    done.error_kind = written.error().kind;
  }
  return done;
}

}  // namespace

VersionWriter::VersionWriter(Report report)
    : report_(std::move(report)), thread_([this](const std::stop_token& stop) { work(stop); }) {}

VersionWriter::~VersionWriter() {
  // A write can take long. Its reader gives up, so that the writer fails at its next read and the
  // process can end.
  thread_.request_stop();
  const std::lock_guard lock(mutex_);
  waiting_.clear();
  if (reading_) reading_->give_up("the worker ends");
}

void VersionWriter::write(Snapshot snapshot, WriteVersion asked) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({std::move(snapshot), std::move(asked)});
  changed_.notify_one();
}

void VersionWriter::work(const std::stop_token& stop) {
  become_unimportant();
  while (std::optional<Job> job = next_job(stop)) {
    const CheckpointFinished done = finish(job->snapshot, job->asked);
    if (!stop.stop_requested()) report_(done);
  }
}

std::optional<VersionWriter::Job> VersionWriter::next_job(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  reading_.reset();
  if (!changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) return std::nullopt;
  Job job = std::move(waiting_.front());
  waiting_.pop_front();
  // Set under the lock, so the destructor either removes the job from the queue or finds it here.
  reading_ = job.snapshot.replica;
  return job;
}

}  // namespace es::actors::worker

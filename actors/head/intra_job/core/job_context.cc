#include "actors/head/intra_job/core/job_context.h"

#include <utility>

namespace es::actors::intra_job {

JobContext::JobContext(Config config_of_job, Services services_of_job, JobRecord record_of_job)
    : config(std::move(config_of_job)),
      services(std::move(services_of_job)),
      schedule(config.spec.stages, config.start_version),
      last_version(config.last_version),
      record(std::move(record_of_job)),
      fleet(config.spec.max_p) {}

std::uint64_t JobContext::unix_ms() const {
  const auto since_zero = std::chrono::duration_cast<std::chrono::milliseconds>(now);
  return config.zero_unix_ms + static_cast<std::uint64_t>(since_zero.count());
}

void JobContext::send(const Worker& worker, SharedMessage message) {
  emit(SendWorker{worker.incarnation, worker.address, std::move(message)});
}

void JobContext::send_to_members(protocol::HeadMessage message) {
  const auto shared = std::make_shared<const protocol::HeadMessage>(std::move(message));
  for (const Incarnation incarnation : fleet.placed()) send(*fleet.find(incarnation), shared);
}

void JobContext::show_state(JobState state) {
  if (record.state == state) return;
  record.state = state;
  emit(StateChanged{state});
}

void JobContext::save() {
  record.known = is_ending() ? std::vector<KnownWorker>() : known_workers();
  emit(SaveRecord{record});
}

std::vector<KnownWorker> JobContext::known_workers() const {
  std::vector<KnownWorker> known;
  for (const auto& [incarnation, worker] : fleet.workers()) {
    // Other processes hold no version. A restarted head kills them when they say hello.
    if (worker.phase != Worker::Phase::kKnown) continue;
    known.push_back({incarnation, worker.device, worker.address, worker.host_id});
  }
  return known;
}

}  // namespace es::actors::intra_job

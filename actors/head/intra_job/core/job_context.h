#pragma once
// JobContext contains what all parts of a job's head share: the configuration, the journaled
// record, the devices and workers, the members of the present placement, and the effects of the
// running call. Every part (job_core.h lists them) owns the rest of its state alone.
#include <string>
#include <vector>

#include "actors/head/intra_job/core/fleet.h"
#include "actors/head/intra_job/core/job_events.h"
#include "actors/head/intra_job/core/stage_schedule.h"

namespace es::actors::intra_job {

enum class Phase { kIdle, kPreparing, kInstalling, kNormal, kDraining, kEnding };

struct JobContext {
  JobContext(Config config, Services services, JobRecord record);

  const Config config;
  const Services services;
  const StageSchedule schedule;

  // Config::last_version, or the version with which an evaluation ends the job.
  Version last_version;

  JobRecord record;  // journaled by save()
  Phase phase = Phase::kIdle;
  Fleet fleet;
  std::vector<protocol::Member> members;  // of the last placement, ascending by rank (rounds.h)
  DeviceSet placement;                    // the devices of the members
  bool urgent = false;                    // devices that members have to leave are about to end
  Instant now{};                          // time of the running call, since Config::zero_unix_ms
  Effects effects;                        // of the running call

  // The date; REQUIRES: Config::zero_unix_ms is known.
  std::uint64_t unix_ms() const;
  bool staged() const { return !schedule.empty(); }
  bool is_paused() const { return record.state == JobState::kPaused; }
  bool is_ending() const { return phase == Phase::kEnding; }
  // Returns whether members run steps or stand at the end of one.
  bool has_members_at_work() const { return phase == Phase::kNormal || phase == Phase::kDraining; }
  protocol::Stamp stamp() const { return {record.generation, Incarnation{}}; }

  void emit(Effect effect) { effects.push_back(std::move(effect)); }
  void log(std::string text) { emit(LogLine{std::move(text)}); }
  void warn(std::string text) { emit(LogLine{std::move(text), true}); }
  using SharedMessage = std::shared_ptr<const protocol::HeadMessage>;
  void send(const Worker& worker, SharedMessage message);
  void send(const Worker& worker, protocol::HeadMessage message) {
    send(worker, std::make_shared<const protocol::HeadMessage>(std::move(message)));
  }
  // Sends to all members that take part in the placement.
  void send_to_members(protocol::HeadMessage message);
  void show_state(JobState state);
  // Journals the record with the workers that are known now. An ended job has none: a restarted
  // head kills those that are left.
  void save();
  // Answers a command of a client.
  void answer(std::uint64_t request, Status status, std::string note = {}) {
    emit(CommandDone{request, std::move(status), std::move(note)});
  }

 private:
  std::vector<KnownWorker> known_workers() const;
};

}  // namespace es::actors::intra_job

#pragma once
// HeldVersion is the version in the replica of an engine. It can be written to a checkpoint while
// training continues.
//
// Nothing is copied when a checkpoint is requested: the writer reads the live replica. Before the
// next change of the replica, thaw() copies what the writer has not read yet.
//
// Only the device thread uses this class; the writer has a thread of its own (version_writer.h).
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/worker/core/worker_events.h"
#include "actors/worker/device/snapshot.h"
#include "actors/worker/device/version_writer.h"
#include "gpu/engine/engine.h"
#include "gpu/engine/frozen_replica.h"
#include "proto/base/job_spec.h"

namespace es::actors::worker {

class HeldVersion {
 public:
  struct Job {
    JobId id;
    const JobSpec& spec;
    const std::string& spec_toml;  // the canonical text
  };
  // The engine and what `job` refers to must outlive this object. `report` is called on the
  // writer's thread.
  HeldVersion(gpu::Engine& engine, Job job, VersionWriter::Report report);

  // Call this before anything changes the replica.
  void thaw();
  // Sets the digest of the parameters in the ledger line of this version, if this worker has made
  // that line. Before the replica gets another version, call thaw() and set the digest anew.
  void set_params_digest(std::optional<Digest> digest) { params_ = digest; }

  // Sets what the evaluations before this version have decided; empty: nothing.
  void set_decisions(std::string decisions) { decisions_ = std::move(decisions); }

  // REQUIRES: engine.fetch_replica() has succeeded since the replica was last changed.
  Snapshot snapshot();
  // A snapshot that stays readable when the replica changes. REQUIRES: as for snapshot().
  Snapshot freeze();
  // Queues what freeze() has returned to be written. If the engine does not hold everything,
  // Snapshot::other must supply the rest.
  void write(Snapshot version, const WriteVersion& asked);

 private:
  gpu::Engine& engine_;
  Job job_;
  std::optional<Digest> params_;
  std::string decisions_;
  // snapshots of this version that the writer may still be reading
  std::vector<std::shared_ptr<gpu::FrozenReplica>> frozen_;
  std::shared_ptr<gpu::CopyMemory> copies_;  // memory for the copies of one version
  std::vector<gpu::FloatRange> copied_;      // what the engine held when this memory was made
  VersionWriter writer_;                     // the last member: it ends before what it reads
};

}  // namespace es::actors::worker

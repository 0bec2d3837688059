#include "actors/worker/device/held_version.h"

#include <utility>

#include "actors/worker/state/kernel_record.h"

namespace es::actors::worker {

HeldVersion::HeldVersion(gpu::Engine& engine, Job job, VersionWriter::Report report)
    : engine_(engine), job_(std::move(job)), writer_(std::move(report)) {}

// Called before the replica changes. Writers that still read it get copies of what they have not
// read, and from then on no longer depend on the replica.
void HeldVersion::thaw() {
  for (const auto& version : frozen_) version->thaw();
  frozen_.clear();
}

Snapshot HeldVersion::snapshot() {
  // Copies of other moments would have other sizes.
  if (copies_ == nullptr || copied_ != engine_.held()) {
    copies_ = std::make_shared<gpu::CopyMemory>(1 + engine_.moment_count());
    copied_ = engine_.held();
  }
  return {.job_name = job_.spec.name,
          .run = job_.id,
          .job_toml = job_.spec_toml,
          .kernels = kernel_record(engine_, job_.spec.level),
          .params = params_,
          .table = &engine_.table(),
          .buckets = &engine_.buckets(),
          .frozen = engine_.frozen_digest(),
          .decisions = decisions_,
          .replica = std::make_shared<gpu::FrozenReplica>(engine_.replica(), engine_.kept_floats(),
                                                          copies_)};
}

Snapshot HeldVersion::freeze() {
  Snapshot version = snapshot();
  frozen_.push_back(version.replica);
  return version;
}

void HeldVersion::write(Snapshot version, const WriteVersion& asked) {
  writer_.write(std::move(version), asked);
}

}  // namespace es::actors::worker

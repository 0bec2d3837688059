#include "actors/head/intra_job/core/periodic_checkpoints.h"

#include <algorithm>
#include <utility>

namespace es::actors::intra_job {
namespace {

// Numbers of clients' requests and of suspensions stay below this one.
constexpr std::uint64_t kFirstNumber = std::uint64_t{1} << 63;
constexpr int kPlanBits = 24;  // for the requests of one generation
// Number of clients' checkpoints that may serve as a source if newer ones are damaged.
constexpr std::size_t kClientsKept = 8;

// Paths of the checkpoints of the series, except for its `keep` newest ones.
std::vector<std::string> beyond(std::uint32_t keep, const JobRecord& record) {
  std::vector<std::string> paths;
  std::uint32_t kept = 0;
  for (const CheckpointRef& ref : record.checkpoints)
    if (ref.periodic && ++kept > keep && &ref != record.newest_checkpoint())
      paths.push_back(ref.path);
  return paths;
}

Version newest_periodic(const JobRecord& record) {
  for (const CheckpointRef& ref : record.checkpoints)
    // The list begins with the newest checkpoint.
    if (ref.periodic) return ref.version;
  return 0;
}

}  // namespace

PeriodicCheckpoints::PeriodicCheckpoints(const CheckpointSpec& spec, Version last_version,
                                         const JobRecord& record)
    : spec_(spec), last_version_(last_version), tried_(newest_periodic(record)) {}

std::uint64_t own_request_number(std::uint64_t first, Generation generation, std::uint64_t made) {
  return first + (generation.value << kPlanBits) + made;
}

void PeriodicCheckpoints::plan(Version through, const JobRecord& record) {
  if (pending_ || spec_.every_steps == 0 || tried_ >= last_version_) return;
  // A version whose checkpoint could not be written is not tried again; the next multiple follows.
  const Version after = std::max(through, tried_);
  const Version next = (after / spec_.every_steps + 1) * spec_.every_steps;
  pending_ =
      PeriodicRequest{.number = own_request_number(kFirstNumber, record.generation, planned_++),
                      .at = std::min(next, last_version_),
                      .remove = beyond(spec_.keep - 1, record)};
  // A void checkpoint of a later version is not removed yet: the version may be computed again with
  // the same bits. Then the writer finds the checkpoint in place and uses it.
  for (const CheckpointRef& ref : record.spoiled)
    if (ref.version < pending_->at) pending_->remove.push_back(ref.path);
}

void PeriodicCheckpoints::end_at(Version last_version) {
  last_version_ = last_version;
  if (pending_ && pending_->at > last_version) pending_.reset();
}

void PeriodicCheckpoints::settle(Version version) {
  tried_ = std::max(tried_, version);
  pending_.reset();
}

void add_checkpoint(JobRecord& record, CheckpointRef written,
                    const std::vector<std::string>& removed) {
  // The same state may lie on several disks, and it can be read on each of them. So the nodes of an
  // entry with the same content are kept.
  const auto join = [&written](const CheckpointRef& ref) {
    const bool same = ref.path == written.path && ref.version == written.version &&
                      ref.digests == written.digests;
    if (same) written.nodes.insert(ref.nodes.begin(), ref.nodes.end());
  };
  std::ranges::for_each(record.checkpoints, join);
  std::ranges::for_each(record.spoiled, join);
  drop_checkpoint(record, written.path);
  for (const std::string& path : removed) drop_checkpoint(record, path);
  std::erase_if(record.spoiled, [&](const CheckpointRef& ref) {
    return ref.path == written.path || std::ranges::find(removed, ref.path) != removed.end();
  });
  // After a restart from an older state the checkpoint that is written now need not be the newest
  // one.
  std::vector<CheckpointRef>& all = record.checkpoints;
  const auto place = std::find_if(all.begin(), all.end(), [&](const CheckpointRef& ref) {
    return ref.version <= written.version;
  });
  all.insert(place, std::move(written));
  // The newest one always stays.
  std::size_t clients = 0;
  const auto too_old = [&](const CheckpointRef& ref) {
    return !ref.periodic && ++clients > kClientsKept;
  };
  all.erase(std::remove_if(all.begin() + 1, all.end(), too_old), all.end());
}

std::vector<CheckpointRef> drop_newer(JobRecord& record, Version good) {
  std::vector<CheckpointRef> dropped;
  while (!record.checkpoints.empty() && record.checkpoints.front().version > good) {
    dropped.push_back(record.checkpoints.front());
    drop_checkpoint(record, dropped.back().path);
  }
  return dropped;
}

bool drop_suspensions(JobRecord& record, std::string_view prefix, std::string_view newest) {
  std::vector<std::string> paths = suspensions(record, prefix);
  std::erase(paths, newest);
  for (const std::string& path : paths) drop_checkpoint(record, path);
  return !paths.empty();
}

std::vector<std::string> suspensions(const JobRecord& record, std::string_view prefix) {
  std::vector<std::string> paths;
  for (const CheckpointRef& ref : record.checkpoints)
    if (is_suspension(ref, prefix)) paths.push_back(ref.path);
  return paths;
}

std::string_view name_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_suspension(const CheckpointRef& ref, std::string_view prefix) {
  return !ref.periodic && !prefix.empty() && name_of(ref.path).starts_with(name_of(prefix));
}

bool drop_checkpoint(JobRecord& record, std::string_view path) {
  return std::erase_if(record.checkpoints,
                       [&](const CheckpointRef& ref) { return ref.path == path; }) > 0;
}

}  // namespace es::actors::intra_job

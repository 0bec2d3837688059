#include "actors/head/intra_job/core/checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace es::actors::intra_job {

using namespace protocol;

namespace {

// Above the request numbers of clients and below those of the job's own series.
constexpr std::uint64_t kSuspensionRequest = (std::uint64_t{1} << 63) - 1;
// Those of best versions: above the numbers of clients, and below that one.
constexpr std::uint64_t kFirstBest = std::uint64_t{1} << 62;

}  // namespace

Checkpoints::Checkpoints(JobContext& context, const RestartPoint& restart,
                         const RunProgress& progress,
                         std::function<void(const Status&)> suspension_done)
    : context_(context),
      ran_before_(context.record.generation.value > 0),
      restart_(restart),
      progress_(progress),
      suspension_done_(std::move(suspension_done)),
      periodic_(context.config.spec.checkpoint, context.last_version, context.record) {}

// --- requests

void Checkpoints::request(const CheckpointCommand& command) {
  if (context_.is_ending()) return done(command.request, refused("the job has ended"));
  if (context_.is_paused())
    return done(command.request,
                refused("the job is paused; its state is in its newest checkpoint"));
  Requested requested{.request = command.request, .directory = command.directory};
  requested.otherwise = command.otherwise;
  if (command.at_end) {
    requested.at = context_.last_version;
    at_end_.insert(command.request);
  }
  requested_.push_back(std::move(requested));
  // During a round there is no writer; Rounds::go() sends all open requests.
  if (context_.has_members_at_work()) ask();
}

void Checkpoints::answer_while_waiting() {
  if (context_.phase != Phase::kIdle || !context_.fleet.holds_nothing()) return;
  const auto waits = [&](const Requested& requested) {
    return requested.request != kSuspensionRequest && !at_end_.contains(requested.request);
  };
  std::vector<std::uint64_t> waiting;
  for (const Requested& requested : requested_)
    if (waits(requested)) waiting.push_back(requested.request);
  std::erase_if(requested_, waits);
  const CheckpointRef* saved = context_.record.newest_checkpoint();
  const std::string state = saved == nullptr ? "no state of it is saved"
                                             : "its newest saved state is " + saved->path +
                                                   " of version " + std::to_string(saved->version);
  for (const std::uint64_t request : waiting)
    done(request, refused("the job holds no device, so there is nothing to write; " + state));
}

// A directory is never used twice: each generation makes one request, and after a failed request a
// new generation begins. A writer that was given up may still be busy in the directory of its
// generation.
void Checkpoints::ask_for_suspension() {
  const bool asked = std::ranges::any_of(requested_, [](const Requested& requested) {
    return requested.request == kSuspensionRequest;
  });
  const bool written = std::ranges::any_of(
      written_, [](const Written& taken) { return taken.message.request == kSuspensionRequest; });
  if (asked || written) return;
  const std::string directory =
      context_.config.suspend_prefix + std::to_string(context_.record.generation.value);
  requested_.push_back({.request = kSuspensionRequest,
                        .directory = directory,
                        .make_parent = true,
                        .otherwise = std::string(name_of(directory))});
  ask();
}

void Checkpoints::forget_suspension() {
  std::erase_if(requested_,
                [](const Requested& requested) { return requested.request == kSuspensionRequest; });
  std::erase_if(written_,
                [](const Written& taken) { return taken.message.request == kSuspensionRequest; });
}

void Checkpoints::ask() {
  // All open requests are sent, also those that this writer has received before. It ignores a
  // request of which it knows the number and the directory.
  const Worker& writer = *context_.fleet.find(context_.members.front().incarnation);
  for (Requested& requested : requested_) {
    requested.asked.insert(writer.incarnation);
    context_.send(writer, WriteCheckpoint{.stamp = context_.stamp(),
                                          .request = requested.request,
                                          .directory = requested.directory,
                                          .at = requested.at,
                                          .make_parent = requested.make_parent});
  }
}

// The request is sent ahead of time, so that the writer meets the version exactly.
void Checkpoints::ask_for_periodic() {
  periodic_.plan(progress_.through(), context_.record);
  if (!context_.has_members_at_work() || !periodic_.pending()) return;
  const PeriodicRequest& request = *periodic_.pending();
  context_.send(*context_.fleet.find(context_.members.front().incarnation),
                WriteCheckpoint{.stamp = context_.stamp(),
                                .request = request.number,
                                .directory = context_.config.checkpoint_directory,
                                .periodic = true,
                                .at = request.at});
}

// A round makes the writer forget the request, so it is repeated, and a worker that has begun to
// write ignores the repetition. A restarted head may have missed the answer to an earlier request,
// so its number is another one.
bool Checkpoints::keep_best(Version version) {
  const std::optional<CheckpointRef>& kept = context_.record.best;
  if ((kept && kept->version == version) || best_failed_ == version) return true;
  const Generation now = context_.record.generation;
  if (best_ && best_->version == version && best_->asked == now) return false;
  if (!best_ || best_->version != version)
    best_ =
        Best{own_request_number(kFirstBest, context_.record.generation, bests_++), version, now};
  best_->asked = now;
  context_.send(*context_.fleet.find(context_.members.front().incarnation),
                WriteCheckpoint{.stamp = context_.stamp(),
                                .request = best_->request,
                                .directory = context_.config.checkpoint_directory + "/best",
                                .periodic = true,
                                .at = version});
  return false;
}

void Checkpoints::end_at_last_version() {
  periodic_.end_at(context_.last_version);
}

// If a round has begun meanwhile, all checkpoints are requested again after Go.
void Checkpoints::ask_elsewhere() {
  if (std::exchange(ask_again_, false) && context_.has_members_at_work()) ask();
}

// After a round the members step again and stop at another version.
bool Checkpoints::move_at_end(Version version) {
  bool changed = false;
  for (Requested& requested : requested_) {
    if (!at_end_.contains(requested.request) || requested.at == version) continue;
    requested.at = version;
    changed = true;
  }
  return changed;
}

// --- answers

void Checkpoints::done(std::uint64_t request, Result<CheckpointTaken> result) {
  at_end_.erase(request);
  first_errors_.erase(request);
  if (request != kSuspensionRequest) {
    context_.emit(CheckpointDone{request, std::move(result)});
  } else {
    suspension_done_(result ? Status() : Status(result.error()));
  }
}

void Checkpoints::written(const Worker& worker, const CheckpointWritten& message) {
  if (is_own(message.request)) {
    if (!message.error.empty()) {
      ++counts_.failed;
      return is_best(message.request) ? best_failed(message.error) : periodic_failed(message.error);
    }
    written_.push_back({message, worker.device.node});
    return take_written();
  }
  const auto requested = std::ranges::find(requested_, message.request, &Requested::request);
  if (requested == requested_.end()) return;
  // The checkpoint of a suspension that was given up does not belong to the job any more. It may be
  // removed at any moment.
  const CheckpointRef ref{message.path, message.version};
  if (is_suspension(ref, context_.config.suspend_prefix) &&
      name_of(ref.path) != name_of(requested->directory))
    return;
  if (!message.error.empty()) {
    ++counts_.failed;
    requested->why_not = Error{message.error_kind, message.error};
    return no_answer_from(message.stamp.sender);
  }
  if (!requested->first_error.empty()) first_errors_[requested->request] = requested->first_error;
  requested_.erase(requested);
  written_.push_back({message, worker.device.node});
  take_written();
}

// A request fails when no worker is left that could answer it and at least one has reported an
// error; of several errors the last one is passed on. If all of them have ended without an answer,
// the request stays open and is sent again after the next Go.
void Checkpoints::no_answer_from(Incarnation worker) {
  std::vector<std::pair<std::uint64_t, Error>> failed;
  std::erase_if(requested_, [&](Requested& requested) {
    requested.asked.erase(worker);
    if (!requested.asked.empty() || !requested.why_not || try_elsewhere(requested)) return false;
    failed.emplace_back(requested.request, *requested.why_not);
    return true;
  });
  for (const auto& [request, error] : failed) done(request, error);
}

// If the second directory fails too, the error names both reasons.
bool Checkpoints::try_elsewhere(Requested& requested) {
  if (!requested.first_error.empty()) {
    requested.why_not->message = requested.first_error + "; " + requested.why_not->message;
    return false;
  }
  if (requested.otherwise.empty()) return false;
  requested.first_error = requested.why_not->message;
  requested.why_not.reset();
  context_.warn(requested.first_error + "; trying " + requested.otherwise);
  requested.directory = std::exchange(requested.otherwise, {});
  // The directory in which a node keeps states itself may not be there yet.
  requested.make_parent |= std::filesystem::path(requested.directory).is_relative();
  ask_again_ = true;
  return true;
}

// The job continues without this checkpoint. The previous one is untouched, and the next one may
// succeed.
void Checkpoints::periodic_failed(const std::string& why) {
  // The members may have gone on while the writer failed, so the next checkpoint is planned for a
  // version after both.
  const Version version = std::max(periodic_.pending()->at, progress_.through());
  warning_ = "no checkpoint of version " + std::to_string(version) + ": " + why;
  context_.warn(warning_);
  periodic_.settle(version);
  ask_for_periodic();
}

// The job continues. The best checkpoint before this one stays.
void Checkpoints::best_failed(const std::string& why) {
  best_failed_ = best_->version;
  best_.reset();
  warning_ = "no checkpoint of version " + std::to_string(best_failed_) + ", the best one: " + why;
  context_.warn(warning_);
}

void Checkpoints::drop_written(const std::string& why) {
  for (const Written& written : std::exchange(written_, {})) {
    // No client waits for a checkpoint that the job itself wants.
    if (is_own(written.message.request)) continue;
    done(written.message.request, refused(why));
  }
  periodic_.forget();
  best_.reset();
}

void Checkpoints::refuse_all(const std::string& why) {
  for (const Requested& requested : std::exchange(requested_, {}))
    done(requested.request, refused(why));
  drop_written(why);
}

// Ledger lines can be late after the head was away. If all workers that know them are lost, the
// checkpoint is lost too.
void Checkpoints::take_written() {
  for (const Written& written : std::exchange(written_, {})) {
    if (written.message.version > progress_.through()) {
      written_.push_back(written);
    } else {
      take(written);
    }
  }
}

void Checkpoints::take(const Written& taken) {
  const CheckpointWritten& message = taken.message;
  const bool periodic = periodic_.is_pending(message.request);
  const bool best = is_best(message.request);
  const CheckpointRef written{
      message.path, message.version, periodic, {taken.node}, message.digests};
  context_.log("worker " + std::to_string(message.stamp.sender.value) + " wrote checkpoint " +
               written.path + " of version " + std::to_string(written.version) + " on node " +
               taken.node);
  ++counts_.written;
  counts_.seconds += message.seconds;
  record_checkpoint(written, message.request);
  if (!periodic && !best) {
    CheckpointTaken result{written, message.digests};
    const auto error = first_errors_.extract(message.request);
    if (!error.empty()) result.first_error = error.mapped();
    return done(message.request, std::move(result));
  }
  if (!warning_.empty()) context_.log("checkpoints are written again");
  warning_.clear();
  if (best) return best_.reset();
  periodic_.settle(written.version);
  ask_for_periodic();
}

// The paths of what a checkpoint that the job itself wants takes the place of.
std::vector<std::string> Checkpoints::replaced_paths(std::uint64_t request,
                                                     const std::string& path) const {
  if (periodic_.is_pending(request)) return periodic_.pending()->remove;
  const std::optional<CheckpointRef>& best = context_.record.best;
  if (!is_best(request) || !best || best->path == path) return {};
  return {best->path};
}

// Adds a checkpoint to the record and has nodes remove those that it replaces.
void Checkpoints::record_checkpoint(const CheckpointRef& written, std::uint64_t request) {
  const std::vector<std::string> removed = replaced_paths(request, written.path);
  // This comes before add_checkpoint(), which drops these from the record.
  const std::vector<CheckpointRef> replaced_ones = replaced_by(written, removed);
  JobRecord& record = context_.record;
  const std::string& prefix = context_.config.suspend_prefix;
  add_checkpoint(record, written, removed);
  const bool suspension = is_suspension(written, prefix);
  // A client may remove its own checkpoints at any time. A suspension checkpoint stays until a
  // newer one of the job replaces it.
  if (is_best(request)) record.best = written;
  const bool replaced = (is_own(request) || suspension) &&
                        record.checkpoints.front().path == written.path &&
                        drop_suspensions(record, prefix, written.path);
  context_.save();
  // Nodes remove old checkpoints only after the record without them is durable. Until then the job
  // may need them: if all its workers end before they have reported the new checkpoint, or if the
  // head restarts.
  remove_from_nodes(replaced_ones, *written.nodes.begin());
  if (replaced || suspension) keep_suspensions();
}

Status Checkpoints::check_result_saved() const {
  const Version last = context_.last_version;
  const CheckpointRef* newest = context_.record.newest_checkpoint();
  if ((newest != nullptr && newest->version == last) || warning_.empty()) return {};
  return failure("all " + std::to_string(last) +
                 " steps are done, but their result is not kept: " + warning_);
}

}  // namespace es::actors::intra_job

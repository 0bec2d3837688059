#include "actors/head/intra_job/core/restart_point.h"

#include <algorithm>
#include <utility>

namespace es::actors::intra_job {

using namespace protocol;

std::vector<CheckpointRef> RestartPoint::states() const {
  std::vector<CheckpointRef> states = context_.record.checkpoints;
  const Config& config = context_.config;
  if (const auto* start = std::get_if<FromCheckpoint>(&config.start))
    // No node is known to have written it, so it is never proven gone (SavedStates::look).
    states.push_back({start->path, config.start_version, false, {}, config.start_digests});
  return states;
}

std::pair<Source, Version> RestartPoint::source() const {
  const SavedStates::Verdict& next = verdict();
  if (next.kind == RestartChoice::Kind::kStart)
    return {context_.config.start, context_.config.start_version};
  return {FromCheckpoint{next.state.path}, next.state.version};
}

Version RestartPoint::next_version() const {
  // An empty optional is less than every version, so workers that have not reported do not count.
  std::optional<Version> newest;
  for (const auto& [incarnation, worker] : context_.fleet.workers())
    if (worker.phase == Worker::Phase::kKnown) newest = std::max(newest, worker.version);
  return newest ? *newest : version();
}

bool RestartPoint::any_worker_holds_a_version() const {
  return std::ranges::any_of(context_.fleet.workers(), [](const auto& entry) {
    return entry.second.phase == Worker::Phase::kKnown && entry.second.version;
  });
}

void RestartPoint::ask_nodes() {
  // While a worker holds a version, the job continues from there, and nodes need not search their
  // disks.
  if (context_.is_ending() || any_worker_holds_a_version()) return;
  const std::vector<CheckpointRef> all = states();
  if (all.empty()) return;
  for (auto& [node, asked] : saved_.to_ask(all, context_.fleet.nodes()))
    context_.emit(FindStates{node, std::move(asked)});
}

void RestartPoint::take(const StatesFound& event) {
  for (const StateFound& found : event.states)
    saved_.found(event.node, found.state, found.sight, found.error);
}

void RestartPoint::could_not_read(const std::string& node, const CheckpointRef& state, bool gone,
                                  const std::string& error) {
  if (gone) {
    saved_.found(node, state, Sight::kGone, error);
  } else {
    saved_.failed_to_read(node, state, error);
  }
}

bool RestartPoint::is_missing() const {
  if (context_.phase != Phase::kIdle || context_.is_paused()) return false;
  const RestartChoice::Kind kind = verdict().kind;
  return kind == RestartChoice::Kind::kAway || kind == RestartChoice::Kind::kLost;
}

std::string RestartPoint::text(const RestartChoice& next) const {
  const std::string what =
      "saved state (version " + std::to_string(next.state.version) + ", " + next.state.path + ")";
  const std::string accept = "`esctl resume --accept-loss`";
  switch (next.kind) {
    case RestartChoice::Kind::kStart:
    case RestartChoice::Kind::kReadable:
      return {};
    case RestartChoice::Kind::kAsking:
      return nodes_text(next.missing) + " to say whether its newest " + what + " can be read there";
    case RestartChoice::Kind::kLost:
      return "a decision of its user: all its saved states are lost, also the newest " + what +
             ": " + saved_.error_of(next.state) + "; " + accept +
             " starts the job again from its beginning";
    case RestartChoice::Kind::kAway:
      break;
  }
  if (!next.why.empty())
    return nodes_text(next.missing) + " to be able to read its newest " + what + ": " + next.why;
  if (next.missing.empty()) return "a node that can read its newest " + what;
  return nodes_text(next.missing) + ", which " + (next.missing.size() == 1 ? "holds" : "hold") +
         " its newest " + what;
}

void RestartPoint::report_wait() {
  const std::string reason = is_missing() ? text(choose()) : std::string();
  if (!reason.empty()) context_.show_state(JobState::kQueued);
  if (reported_wait_ == reason) return;
  reported_wait_ = reason;
  if (!reason.empty()) context_.warn("the job waits for " + reason);
}

bool RestartPoint::is_known_to(const std::set<Incarnation>& workers) const {
  const SavedStates::Verdict& next = verdict();
  if (next.kind == RestartChoice::Kind::kStart) return true;
  std::set<std::string> nodes;
  for (const Incarnation incarnation : workers)
    nodes.insert(context_.fleet.workers().at(incarnation).device.node);
  return next.kind == RestartChoice::Kind::kReadable && saved_.answered(next.state, nodes);
}

void RestartPoint::give_up_newer_than(const CheckpointRef& next) {
  // The record is journaled with the new members before Go. A head that restarts earlier comes to
  // the same result from new answers.
  std::vector<CheckpointRef>& known = context_.record.checkpoints;
  while (!known.empty() && known.front().path != next.path) {
    const CheckpointRef gone = known.front();
    warning_ = saved_.error_of(gone) + "; the job continues from version " +
               std::to_string(next.version) + ", checkpoint " + next.path;
    context_.warn(warning_);
    drop_checkpoint(context_.record, gone.path);
  }
}

Result<RestartPoint::Loss> RestartPoint::look_for_loss() const {
  Loss loss;
  // The saved state of a node that is away counts as lost too, because the user no longer wants to
  // wait for this node.
  for (const CheckpointRef& state : states()) {
    const RestartChoice seen = saved_.look(state);
    if (seen.kind == RestartChoice::Kind::kAsking)
      return refused("not all nodes have answered yet which saved states they can read; try again");
    if (seen.kind == RestartChoice::Kind::kReadable) {
      // The newest state that can be read. Older ones are not given up.
      loss.next = state;
      break;
    }
    loss.lost.push_back(state);
  }
  return loss;
}

Result<std::string> RestartPoint::accept_loss() {
  const Result<Loss> loss = look_for_loss();
  if (!loss) return loss.error();
  const std::vector<CheckpointRef>& lost = loss->lost;
  if (lost.empty()) return std::string("nothing is lost: its newest saved state can be read");
  if (!loss->next && !std::holds_alternative<FromSeed>(context_.config.start))
    return refused("no node can read a state from which the job could continue, not even " +
                   lost.back().path + ", from which it began");
  std::string note = "gives up";
  for (const CheckpointRef& state : lost) {
    const std::string where = state.nodes.empty() ? "" : " on " + nodes_text(state.nodes);
    note += (&state == &lost.front() ? " version " : ", version ") + std::to_string(state.version) +
            " (" + state.path + where + ")";
    drop_checkpoint(context_.record, state.path);
  }
  note += "; continues from " +
          (loss->next ? "version " + std::to_string(loss->next->version) + ", " + loss->next->path
                      : std::string("the start of the job"));
  context_.log("by the decision of its user the job " + note);
  return note;
}

}  // namespace es::actors::intra_job

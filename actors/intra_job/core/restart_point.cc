#include "actors/intra_job/core/restart_point.h"

#include <algorithm>
#include <utility>

namespace es::actors::intra_job {

using namespace protocol;

std::vector<CheckpointRef> RestartPoint::states() const {
  std::vector<CheckpointRef> states = context_.record.checkpoints;
  const Config& config = context_.config;
  if (const auto* start = std::get_if<FromCheckpoint>(&config.start))
    states.push_back({start->path, config.start_version, false, {}, config.start_digests});
  return states;
}

std::pair<Source, Version> RestartPoint::source() const {
  const GoOn next = go_on();
  if (next.kind == GoOn::Kind::kStart)
    return {context_.config.start, context_.config.start_version};
  return {FromCheckpoint{next.state.path}, next.state.version};
}

Version RestartPoint::next_version() const {
  std::optional<Version> newest;
  for (const auto& [incarnation, worker] : context_.fleet.workers())
    if (worker.phase == Worker::Phase::kKnown) newest = std::max(newest, worker.version);
  return newest ? *newest : version();
}

bool RestartPoint::somebody_holds_a_version() const {
  return std::ranges::any_of(context_.fleet.workers(), [](const auto& entry) {
    return entry.second.phase == Worker::Phase::kKnown && entry.second.version;
  });
}

void RestartPoint::ask_nodes() {
  if (context_.is_ending() || somebody_holds_a_version()) return;
  const std::vector<CheckpointRef> all = states();
  if (all.empty()) return;
  for (const std::string& node : saved_.nodes())
    if (std::vector<CheckpointRef> asked = saved_.to_ask(node, all); !asked.empty())
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
  const GoOn::Kind kind = go_on().kind;
  return kind == GoOn::Kind::kAway || kind == GoOn::Kind::kLost;
}

std::string RestartPoint::text(const GoOn& next) const {
  const std::string what =
      "saved state (version " + std::to_string(next.state.version) + ", " + next.state.path + ")";
  const std::string accept = "`esctl resume --accept-loss`";
  switch (next.kind) {
    case GoOn::Kind::kStart:
    case GoOn::Kind::kReadable:
      return {};
    case GoOn::Kind::kAsking:
      return nodes_text(next.missing) + " to say whether its newest " + what + " can be read there";
    case GoOn::Kind::kLost:
      return "a decision: all that it had saved is gone, the newest " + what + ": " +
             saved_.error_of(next.state) + "; " + accept + " begins again from its start";
    case GoOn::Kind::kAway:
      break;
  }
  if (!next.why.empty())
    return nodes_text(next.missing) + " to be able to read its newest " + what + ": " + next.why;
  if (next.missing.empty()) return "a node that can read its newest " + what;
  return nodes_text(next.missing) + ", which " + (next.missing.size() == 1 ? "holds" : "hold") +
         " its newest " + what;
}

void RestartPoint::report_wait() {
  const std::string reason = is_missing() ? text(go_on()) : std::string();
  if (!reason.empty()) context_.show_state(JobState::kQueued);
  if (reported_wait_ == reason) return;
  reported_wait_ = reason;
  if (!reason.empty()) context_.log("the job waits for " + reason);
}

bool RestartPoint::is_known_to(const std::set<Incarnation>& workers) const {
  const GoOn next = go_on();
  if (next.kind == GoOn::Kind::kStart) return true;
  std::set<std::string> nodes;
  for (const Incarnation incarnation : workers)
    nodes.insert(context_.fleet.workers().at(incarnation).device.node);
  return next.kind == GoOn::Kind::kReadable && saved_.answered(next.state, nodes);
}

void RestartPoint::give_up_newer_than(const CheckpointRef& next) {
  std::vector<CheckpointRef>& known = context_.record.checkpoints;
  while (!known.empty() && known.front().path != next.path) {
    const CheckpointRef gone = known.front();
    warning_ = saved_.error_of(gone) + "; going on from version " + std::to_string(next.version) +
               ", checkpoint " + next.path;
    context_.log("warning: " + warning_);
    drop_checkpoint(context_.record, gone.path);
  }
}

Result<RestartPoint::Loss> RestartPoint::look_for_loss() const {
  Loss loss;
  for (const CheckpointRef& state : states()) {
    const GoOn seen = saved_.look(state);
    if (seen.kind == GoOn::Kind::kAsking)
      return refused("the nodes have not said yet what they can read; ask again");
    if (seen.kind == GoOn::Kind::kReadable) {
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
    return refused("no node can read anything that the job could go on from, not even " +
                   lost.back().path + ", which it began from");
  std::string note = "gives up";
  for (const CheckpointRef& state : lost) {
    const std::string where = state.nodes.empty() ? "" : " on " + nodes_text(state.nodes);
    note += (&state == &lost.front() ? " version " : ", version ") + std::to_string(state.version) +
            " (" + state.path + where + ")";
    drop_checkpoint(context_.record, state.path);
  }
  note += "; goes on from " +
          (loss->next ? "version " + std::to_string(loss->next->version) + ", " + loss->next->path
                      : std::string("the start of the job"));
  context_.log("by its user's word the job " + note);
  return note;
}

}  // namespace es::actors::intra_job

// IntraJobCore: the restart point when no worker holds a version. It is the newest saved state, on
// whichever node it lies. An older state or the start of the job is used only if everything newer
// is proven gone (saved_states.h). Until this is decided the job waits and says for what.
#include <algorithm>
#include <iterator>
#include <utility>

#include "actors/intra_job/core/intra_job_core.h"

namespace es::actors::intra_job {

using namespace protocol;

// Newest first. The checkpoint from which the run began is one of them.
std::vector<CheckpointRef> IntraJobCore::saved_states() const {
  std::vector<CheckpointRef> states;
  if (record_.checkpoint) states.push_back(*record_.checkpoint);
  states.insert(states.end(), record_.older.begin(), record_.older.end());
  if (const auto* start = std::get_if<FromCheckpoint>(&config_.start))
    states.push_back({start->path, config_.start_version, false, {}, config_.start_digests});
  return states;
}

std::pair<Source, Version> IntraJobCore::restart_point() const {
  const GoOn next = go_on();
  if (next.kind == GoOn::Kind::kStart) return {config_.start, config_.start_version};
  return {FromCheckpoint{next.state.path}, next.state.version};
}

bool IntraJobCore::somebody_holds_a_version() const {
  return std::ranges::any_of(fleet_.workers(), [](const auto& entry) {
    return entry.second.phase == Worker::Phase::kKnown && entry.second.version;
  });
}

void IntraJobCore::ask_nodes() {
  if (phase_ == Phase::kEnding || somebody_holds_a_version()) return;
  const std::vector<CheckpointRef> states = saved_states();
  if (states.empty()) return;
  for (const std::string& node : saved_.nodes())
    if (std::vector<CheckpointRef> asked = saved_.to_ask(node, states); !asked.empty())
      effects_.push_back(FindStates{node, std::move(asked)});
}

void IntraJobCore::handle(const NodesPresent& event) {
  const std::set<std::string> before = saved_.nodes();
  std::set<std::string> lost;
  std::ranges::set_difference(before, event.nodes, std::inserter(lost, lost.end()));
  saved_.set_nodes(event.nodes);
  if (phase_ != Phase::kEnding)
    for (const std::string& node : event.nodes)
      if (!before.contains(node)) keep_suspensions(node);
  load_again_without(lost);
  install_when_known();  // a node that left owes no answer any more
}

void IntraJobCore::handle(const NodeSaidHello& event) {
  saved_.forget(event.node);
  load_again_without({event.node});
}

// A member that reads from one of these nodes will not receive the rest of the state.
void IntraJobCore::load_again_without(const std::set<std::string>& nodes) {
  if (phase_ == Phase::kPreparing) return;
  const bool waits_in_vain =
      loads_ && std::ranges::any_of(fleet_.placed(), [&](Incarnation incarnation) {
        const Worker& worker = *fleet_.find(incarnation);
        const std::string place = place_of(worker);
        return place != worker.device.node && nodes.contains(place);
      });
  if (waits_in_vain) begin_round();
}

void IntraJobCore::handle(const StatesFound& event) {
  for (const StateFound& found : event.states)
    saved_.found(event.node, found.state, found.sight, found.error);
  install_when_known();
}

// Returns the node from which this worker reads the state that is loaded: its own node if the state
// can be read there.
std::string IntraJobCore::place_of(const Worker& worker) const {
  const std::set<std::string>& at = loads_->at;
  if (at.contains(worker.device.node)) return worker.device.node;
  for (const std::string& node : loads_->state.nodes)
    if (at.contains(node)) return node;
  return *at.begin();
}

bool IntraJobCore::may_read(Incarnation worker, const std::string& path) const {
  const auto found = fleet_.workers().find(worker);
  return loads_ && found != fleet_.workers().end() && loads_->state.path == path &&
         place_of(found->second) != found->second.device.node;
}

// The job needs a state that cannot be read now. It holds no devices, because it cannot use them.
bool IntraJobCore::waits_for_state() const {
  if (phase_ != Phase::kIdle || paused()) return false;
  const GoOn::Kind kind = go_on().kind;
  return kind == GoOn::Kind::kAway || kind == GoOn::Kind::kLost;
}

// Text for users, after "waits for"; empty: the job can continue.
std::string IntraJobCore::state_text(const GoOn& next) const {
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

// Logs each reason once.
void IntraJobCore::say_what_it_waits_for() {
  const std::string text = waits_for_state() ? state_text(go_on()) : std::string();
  if (!text.empty()) show_state(JobState::kQueued);
  if (said_to_wait_for_ == text) return;
  said_to_wait_for_ = text;
  if (!text.empty()) log("the job waits for " + text);
}

// Returns whether the nodes of these workers have all said whether they can read the state.
// Otherwise a worker could be told to fetch from another node what lies on its own disk.
bool IntraJobCore::may_begin(const std::set<Incarnation>& workers) const {
  const GoOn next = go_on();
  if (next.kind == GoOn::Kind::kStart) return true;
  std::set<std::string> nodes;
  for (const Incarnation incarnation : workers)
    nodes.insert(fleet_.workers().at(incarnation).device.node);
  return next.kind == GoOn::Kind::kReadable && saved_.answered(next.state, nodes);
}

// The processes hold no version, and there is nothing that they could load now.
void IntraJobCore::stand_down() {
  show_state(JobState::kQueued);
  release_everybody();
}

// Forgets the checkpoints newer than `next`, which are proven gone. The steps in between are
// computed again, with the same bits at D1 and D2.
void IntraJobCore::give_up_gone(const CheckpointRef& next) {
  while (record_.checkpoint && record_.checkpoint->path != next.path) {
    const CheckpointRef gone = *record_.checkpoint;
    damage_warning_ = saved_.error_of(gone) + "; going on from version " +
                      std::to_string(next.version) + ", checkpoint " + next.path;
    log("warning: " + damage_warning_);
    drop_checkpoint(record_, gone.path);
  }
}

// If the worker has read the state on its own node's disk, its answer is final. Otherwise the node
// that has the state is asked again.
void IntraJobCore::handle(Worker& worker, const CheckpointUnreadable& message) {
  if (phase_ != Phase::kInstalling || !loads_ || message.path != loads_->state.path) return;
  const std::string place = place_of(worker);
  log("warning: " + worker.device.text() + ": " + message.error);
  if (message.gone) {
    saved_.found(place, loads_->state, Sight::kGone, message.error);
  } else {
    saved_.failed_to_read(place, loads_->state, message.error);
  }
  begin_round();
}

// Carries out the user's decision. Returns the text that tells the user what is given up.
Result<std::string> IntraJobCore::accept_loss() {
  const std::vector<CheckpointRef> states = saved_states();
  std::vector<CheckpointRef> lost;
  std::optional<CheckpointRef> next;
  for (const CheckpointRef& state : states) {
    const GoOn seen = saved_.look(state);
    if (seen.kind == GoOn::Kind::kAsking)
      return refused("the nodes have not said yet what they can read; ask again");
    if (seen.kind == GoOn::Kind::kReadable) {
      next = state;
      break;
    }
    lost.push_back(state);
  }
  if (lost.empty()) return std::string("nothing is lost: its newest saved state can be read");
  if (!next && !std::holds_alternative<FromSeed>(config_.start))
    return refused("no node can read anything that the job could go on from, not even " +
                   lost.back().path + ", which it began from");
  std::string note = "gives up";
  for (const CheckpointRef& state : lost) {
    const std::string where = state.nodes.empty() ? "" : " on " + nodes_text(state.nodes);
    note += (&state == &lost.front() ? " version " : ", version ") + std::to_string(state.version) +
            " (" + state.path + where + ")";
    drop_checkpoint(record_, state.path);
  }
  note += "; goes on from " + (next ? "version " + std::to_string(next->version) + ", " + next->path
                                    : std::string("the start of the job"));
  log("by its user's word the job " + note);
  return note;
}

}  // namespace es::actors::intra_job

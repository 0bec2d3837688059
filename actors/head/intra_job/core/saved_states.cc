#include "actors/head/intra_job/core/saved_states.h"

#include <algorithm>
#include <utility>

namespace es::actors::intra_job {

using protocol::Sight;

namespace {

// Number of failed reads after which a node that reports a state as whole counts as unclear.
constexpr int kReadAttemptsMax = 3;

}  // namespace

SavedStates::Key SavedStates::key_of(const CheckpointRef& state) {
  const auto& [params, rest] = state.digests;
  return {state.version, {params.high, params.low, rest.high, rest.low}, state.path};
}

void SavedStates::set_nodes(NodeNames nodes) {
  nodes_ = std::move(nodes);
  std::erase_if(said_, [this](const auto& entry) { return !nodes_->contains(entry.first); });
  std::erase_if(failures_, [this](const auto& entry) { return !nodes_->contains(entry.first); });
  nodes_changed();
}

void SavedStates::nodes_changed() {
  asked_.reset();
  known_.reset();
}

void SavedStates::forget() {
  said_.clear();
  failures_.clear();
  nodes_changed();
}

void SavedStates::forget(const std::string& node) {
  said_.erase(node);
  failures_.erase(node);
  nodes_changed();
}

std::map<std::string, std::vector<CheckpointRef>> SavedStates::to_ask(
    const std::vector<CheckpointRef>& states, const std::set<std::string>& near) {
  std::map<std::string, std::vector<CheckpointRef>> questions;
  if (asked_ && asked_->states == states && asked_->near == near) return questions;
  for (const CheckpointRef& state : states) {
    const Key key = key_of(state);
    bool is_open = false, is_whole = false;
    const auto ask = [&](const std::string& node) {
      if (!nodes_->contains(node)) return;
      const auto [at, is_new] = said_[node].try_emplace(key);
      if (is_new) questions[node].push_back(state);
      is_open |= !at->second.answered;
      is_whole |= at->second.answered && at->second.sight == Sight::kWhole;
    };
    std::ranges::for_each(near, ask);
    std::ranges::for_each(state.nodes, ask);
    if (is_whole || is_open) break;
    std::ranges::for_each(*nodes_, ask);
    if (is_whole || is_open) break;
  }
  // The number of silent nodes that the verdict counts has changed.
  if (!questions.empty()) known_.reset();
  asked_ = {states, near};
  return questions;
}

void SavedStates::found(const std::string& node, const CheckpointRef& state, Sight sight,
                        const std::string& error) {
  const auto of_node = said_.find(node);
  // The node has left since it was asked, or its answers were forgotten.
  if (of_node == said_.end()) return;
  const Key key = key_of(state);
  const auto asked = of_node->second.find(key);
  if (asked == of_node->second.end()) return;
  const bool is_first = !std::exchange(asked->second, {true, sight, error}).answered;
  asked_.reset();
  if (!known_) return;
  // All nodes have answered about newer states than that of the verdict, and older ones do not
  // matter. So the first answer of a node changes nothing if the state can be read, nor while other
  // nodes are silent, unless it is that the state is whole.
  const RestartChoice::Kind kind = known_->verdict.kind;
  if (is_first && kind == RestartChoice::Kind::kReadable) return;
  if (is_first && kind == RestartChoice::Kind::kAsking) {
    if (key != key_of(known_->verdict.state)) return;
    if (sight != Sight::kWhole && --known_->silent > 0) return;
  }
  known_.reset();
}

void SavedStates::failed_to_read(const std::string& node, const CheckpointRef& state,
                                 const std::string& error) {
  const Key key = key_of(state);
  nodes_changed();
  // Without its answer the node counts as not asked, so it is asked again.
  if (++failures_[node][key] < kReadAttemptsMax) {
    said_[node].erase(key);
  } else {
    said_[node][key] = {true, Sight::kUnclear, error};
  }
}

const SavedStates::Said* SavedStates::said(const std::string& node, const Key& key) const {
  const auto of_node = said_.find(node);
  if (of_node == said_.end()) return nullptr;
  const auto found = of_node->second.find(key);
  return found == of_node->second.end() || !found->second.answered ? nullptr : &found->second;
}

std::string SavedStates::error_of(const CheckpointRef& state) const {
  const Key key = key_of(state);
  for (const std::string& node : state.nodes)  // the node that wrote it knows best
    if (const Said* one = said(node, key); one != nullptr && !one->error.empty())
      return "node " + node + ": " + one->error;
  for (const std::string& node : *nodes_)
    if (const Said* one = said(node, key); one != nullptr && !one->error.empty())
      return "node " + node + ": " + one->error;
  return {};
}

RestartChoice SavedStates::look(const CheckpointRef& state) const {
  RestartChoice choice{.kind = RestartChoice::Kind::kReadable, .state = state};
  const Key key = key_of(state);
  std::set<std::string> asked;
  std::size_t answers = 0;
  for (const auto& [node, states] : said_) {
    const auto one = states.find(key);
    if (one == states.end() || !nodes_->contains(node)) continue;
    if (!one->second.answered) {
      asked.insert(node);
      continue;
    }
    ++answers;
    if (one->second.sight == Sight::kWhole) {
      choice.at.insert(node);
    } else if (one->second.sight == Sight::kUnclear) {
      choice.missing.insert(node);
      choice.why = one->second.error;
    }
  }
  // One node that can read the state is enough. Otherwise every open answer is awaited, because it
  // may be that the state is whole.
  if (!choice.at.empty()) return choice;
  if (answers < nodes_->size()) {
    choice.kind = RestartChoice::Kind::kAsking;
    choice.missing = asked.empty() ? *nodes_ : asked;
    return choice;
  }
  // A node that wrote the state and is away may still have it on its disk.
  for (const std::string& node : state.nodes)
    if (!nodes_->contains(node)) choice.missing.insert(node);
  // Without a known writer nothing is ever proven gone: the node that has the state may be away.
  const bool proven = choice.missing.empty() && !state.nodes.empty();
  choice.kind = proven ? RestartChoice::Kind::kLost : RestartChoice::Kind::kAway;
  return choice;
}

RestartChoice SavedStates::choose(const std::vector<CheckpointRef>& states) const {
  for (const CheckpointRef& state : states) {
    RestartChoice choice = look(state);
    if (choice.kind != RestartChoice::Kind::kLost) return choice;
  }
  if (states.empty()) return {};
  return {.kind = RestartChoice::Kind::kLost, .state = states.front()};
}

const SavedStates::Verdict& SavedStates::verdict(const std::vector<CheckpointRef>& states) const {
  if (!known_ || known_->states != states) {
    const RestartChoice choice = choose(states);
    known_ = {states, {choice.kind, choice.state}, choice.missing.size()};
  }
  return known_->verdict;
}

bool SavedStates::answered(const CheckpointRef& state, const std::set<std::string>& nodes) const {
  const Key key = key_of(state);
  return std::ranges::all_of(nodes, [&](const std::string& node) {
    return !nodes_->contains(node) || said(node, key) != nullptr;
  });
}

std::string nodes_text(const std::set<std::string>& nodes) {
  std::string text = nodes.size() == 1 ? "node " : "nodes ";
  std::size_t left = nodes.size();
  for (const std::string& node : nodes) {
    text += node;
    --left;
    if (left > 0) text += left == 1 ? " and " : ", ";
  }
  return text;
}

}  // namespace es::actors::intra_job

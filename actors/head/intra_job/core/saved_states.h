#pragma once
// SavedStates decides from which of its saved states a job can continue, and on which nodes this
// state can be read.
//
// Every node may have a disk of its own. A saved state is whole on a node if the node can read all
// of it. It counts as possibly whole until it is proven gone. It is gone only if every present node
// has searched for it and found no whole copy, and the nodes that wrote it are among them: a node
// that did not write the state proves nothing if it does not find it. While this is undecided, no
// older state may be used instead.
//
// Pure bookkeeping: the head core asks the nodes and acts on the answer. Not thread-safe.
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "actors/head/intra_job/core/job_events.h"

namespace es::actors::intra_job {

// What a job can do if no worker holds a version of it.
struct RestartChoice {
  enum class Kind {
    kStart,     // no state was ever saved: continue from the start of the job
    kReadable,  // continue from `state`, which is whole on the nodes `at`
    kAsking,  // the nodes `missing` have not answered yet what they can read of `state`; others may
              // have to be asked after them
    kAway,    // `state` may be whole on the nodes `missing`, which are away or could not decide it
    kLost,    // every saved state is gone; `state` is the newest of them
  };
  Kind kind = Kind::kStart;
  CheckpointRef state{};
  std::set<std::string> at{};
  std::set<std::string> missing{};
  std::string why{};  // the error of a node that could not decide it
};

class SavedStates {
 public:
  // Sets the nodes that are present. Answers of a node that left are dropped.
  void set_nodes(NodeNames nodes);
  const NodeNames& nodes() const { return nodes_; }
  // Drops the answers and open questions, of all nodes or of one, because they may be outdated.
  void forget();
  void forget(const std::string& node);

  // Returns which nodes have to be asked now, about which of `states` (newest first), and marks
  // them as asked. To be called after every event. The nodes that wrote a state come first, with
  // those in `near`, which are going to load it. All others follow only if these nodes cannot read
  // it, and an older state only if no node can. Only present nodes are asked.
  std::map<std::string, std::vector<CheckpointRef>> to_ask(const std::vector<CheckpointRef>& states,
                                                           const std::set<std::string>& near);
  // Records an answer. Ignored if the node is not present or was not asked about this state.
  void found(const std::string& node, const CheckpointRef& state, protocol::Sight sight,
             const std::string& error);
  // Records that a worker could not read the state from that node, although it may be whole there.
  // The node is asked again a few times; after that it counts as a node that cannot decide it.
  void failed_to_read(const std::string& node, const CheckpointRef& state,
                      const std::string& error);
  // Returns why the state is not whole, as a node reported it; empty: no node gave a reason.
  std::string error_of(const CheckpointRef& state) const;

  // Chooses among `states`, newest first.
  RestartChoice choose(const std::vector<CheckpointRef>& states) const;
  // The kind and the state of choose(). Nodes answer one after the other, and this does not look at
  // all of them after each answer.
  struct Verdict {
    RestartChoice::Kind kind = RestartChoice::Kind::kStart;
    CheckpointRef state{};
  };
  const Verdict& verdict(const std::vector<CheckpointRef>& states) const;
  // Looks at one state alone; the kind is kReadable, kAsking, kAway or kLost.
  RestartChoice look(const CheckpointRef& state) const;
  // Returns whether all of these nodes that are present have answered about the state.
  bool answered(const CheckpointRef& state, const std::set<std::string>& nodes) const;

 private:
  // Version, digests and path. The path alone is not enough: another state may replace it there. It
  // comes last because it is the slowest to compare.
  using Key = std::tuple<Version, std::array<std::uint64_t, 4>, std::string>;
  struct Said {
    bool answered = false;
    protocol::Sight sight = protocol::Sight::kUnclear;
    std::string error;
  };
  // The verdict on some states. It holds until an answer may change it.
  struct Known {
    std::vector<CheckpointRef> states;
    Verdict verdict;
    std::size_t silent = 0;  // nodes that have not answered about the state of the verdict
  };
  // What to_ask() was called with, when there was nothing left to ask.
  struct Asked {
    std::vector<CheckpointRef> states;
    std::set<std::string> near;
    bool operator==(const Asked&) const = default;
  };
  static Key key_of(const CheckpointRef& state);
  // Nodes have come, left or are to be asked again.
  void nodes_changed();
  const Said* said(const std::string& node, const Key& key) const;

  NodeNames nodes_ = std::make_shared<const std::set<std::string>>();
  std::map<std::string, std::map<Key, Said>> said_;  // by node: the states that it was asked about
  std::map<std::string, std::map<Key, int>> failures_;
  std::optional<Asked> asked_;  // nullopt: an answer or another event may require more questions
  mutable std::optional<Known> known_;
};

// Returns "node n1", "nodes n1 and n2", "nodes n1, n2 and n3". REQUIRES: not empty.
std::string nodes_text(const std::set<std::string>& nodes);

}  // namespace es::actors::intra_job

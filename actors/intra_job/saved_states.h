#pragma once
// SavedStates: from which of its saved states a job can go on, and on which nodes that can be read.
//
// Every node may have a disk of its own. So a state that was saved is taken for whole until those
// who can know say otherwise: it is gone only when every node that is there has looked and found
// nothing whole, and the nodes that wrote it are among them. "Not here" of a node that did not
// write it proves nothing. While that is open, no older state may take its place.
//
// Pure bookkeeping; the head core asks the nodes and acts on the answer. Not thread-safe.
#include <compare>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "actors/intra_job/intra_job_events.h"

namespace es::actors::intra_job {

// What a job without a worker that holds its state can do.
struct GoOn {
  enum class Kind {
    kStart,     // nothing was ever saved: from the start of the job
    kReadable,  // from `state`, which is whole on the nodes `at`
    kAsking,    // the nodes `missing` have not said yet what they see of `state`
    kAway,      // `state` may be whole on the nodes `missing`, which are away or cannot tell
    kLost,      // all that was saved is gone; `state` is the newest of it
  };
  Kind kind = Kind::kStart;
  CheckpointRef state{};
  std::set<std::string> at{};
  std::set<std::string> missing{};
  std::string why{};  // of nodes that cannot tell
};

class SavedStates {
 public:
  // The nodes that are there. What a node that left has said counts no more.
  void set_nodes(std::set<std::string> nodes);
  const std::set<std::string>& nodes() const { return nodes_; }
  // What these have said, or were asked, may not hold any more.
  void forget();
  void forget(const std::string& node);

  // Of `states`, those that this node has not been asked about; it has now.
  std::vector<CheckpointRef> to_ask(const std::string& node,
                                    const std::vector<CheckpointRef>& states);
  // A node that is not there, and a state that it was not asked about, change nothing.
  void found(const std::string& node, const CheckpointRef& state, protocol::Sight sight,
             const std::string& error);
  // A worker could not read it from that node, though it may be whole there: the node is asked
  // again, a few times, and then it counts as one that cannot tell.
  void failed_to_read(const std::string& node, const CheckpointRef& state,
                      const std::string& error);
  // Why it is not whole, as the nodes said; empty: nobody said so.
  std::string error_of(const CheckpointRef& state) const;

  // `states`: newest first.
  GoOn choose(const std::vector<CheckpointRef>& states) const;
  // One alone: kReadable, kAsking, kAway, or kLost.
  GoOn look(const CheckpointRef& state) const;
  // Whether all of these nodes have said what they see of it.
  bool answered(const CheckpointRef& state, const std::set<std::string>& nodes) const;

 private:
  // Another state may come to lie at a path.
  using Key = std::tuple<std::string, Version, std::string>;
  struct Said {
    bool answered = false;
    protocol::Sight sight = protocol::Sight::kUnclear;
    std::string error;
  };
  static Key key_of(const CheckpointRef& state);
  const Said* said(const std::string& node, const CheckpointRef& state) const;

  std::set<std::string> nodes_;
  std::map<std::string, std::map<Key, Said>> said_;  // by node: what it was asked
  std::map<std::string, std::map<Key, int>> failures_;
};

// "node n1", "nodes n1 and n2", "nodes n1, n2 and n3". REQUIRES: not empty.
std::string nodes_text(const std::set<std::string>& nodes);

}  // namespace es::actors::intra_job

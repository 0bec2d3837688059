#pragma once
// JobNodes is what one job says to node agents and hears from them: worker processes to start and
// kill, and the job's saved states on the disks of the nodes. It asks what a node can read, has it
// remove what is not wanted, and passes the bytes of a state from the node that has it to workers
// on other nodes, which have no link to that node.
//
// One owner.
#include <optional>
#include <string>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/head/intra_job/core/job_core.h"
#include "actors/head/intra_job/shell/job_archive.h"
#include "actors/head/intra_job/shell/job_log.h"
#include "actors/head/intra_job/shell/job_mail.h"

namespace es::actors {

// Returns the name of the node; nullopt if the peer is no node.
std::optional<std::string> node_of(const PeerId& peer);

class JobNodes {
 public:
  struct Needs {
    const intra_job::Config& config;
    const intra_job::JobCore& core;
    JobArchive& archive;
    JobLog& log;
    JobMail& mail;
  };
  // What `needs` refers to outlives this object.
  explicit JobNodes(const Needs& needs) : needs_(needs) {}

  // Error: the incarnation is not durable, and nothing was sent.
  Status perform(const intra_job::StartWorker& effect);
  void perform(const intra_job::KillWorker& effect);
  void perform(const intra_job::FindStates& effect);
  void perform(const intra_job::RemoveCheckpoints& effect);
  void perform(const intra_job::KeepSuspensions& effect);

  // StatesFound of a node; nullopt: it is of no node, or malformed.
  std::optional<intra_job::StatesFound> states_found(const Inbound& inbound);
  // StatesRemoved of a node.
  void on_states_removed(const Inbound& inbound);
  // ReadState of a worker.
  void on_read_state(const Inbound& inbound);
  // StatePart of a node.
  void on_state_part(const Inbound& inbound);

 private:
  template <class Schema, class Fill>
  void tell(const std::string& node, Fill&& fill);

  Needs needs_;
};

}  // namespace es::actors

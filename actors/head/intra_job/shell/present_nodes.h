#pragma once
// PresentNodes reads the names of the nodes from an Inventory once for all jobs of a head. A
// cluster may have thousands of nodes, and each of thousands of jobs receives the same message.
// Thread-safe.
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "actors/head/intra_job/core/job_events.h"
#include "proto/messages.h"

namespace es::actors {

class PresentNodes {
 public:
  // Never null. Jobs that ask about the same message share one set.
  intra_job::NodeNames of(const Msg<wire::Inventory>& inventory) {
    const std::lock_guard lock(mutex_);
    if (last_ && last_->frame() == inventory.frame()) return names_;
    std::set<std::string> names;
    auto view = inventory.view();
    for (const auto node : view->getNodes()) names.insert(node.cStr());
    last_ = inventory;
    names_ = std::make_shared<const std::set<std::string>>(std::move(names));
    return names_;
  }

 private:
  std::mutex mutex_;
  std::optional<Msg<wire::Inventory>> last_;
  intra_job::NodeNames names_;
};

}  // namespace es::actors

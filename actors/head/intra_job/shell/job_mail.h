#pragma once
// JobMail sends what an intra-job scheduler says to others. The actor implements it with CAF, and a
// test keeps what is sent.
//
// Nothing is confirmed. What is sent to one receiver arrives in the order of the calls.
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "actors/base/gateway/core/peer_id.h"
#include "actors/base/protocol/core/job_cluster.h"
#include "actors/base/protocol/core/job_plans.h"
#include "proto/frame.h"

namespace es::actors {

class JobMail {
 public:
  using ToCluster =
      std::variant<protocol::Demand, protocol::JobRefusals, protocol::BoundToType,
                   protocol::DeviceReleased, protocol::DeviceSuspected, protocol::DeviceFailed,
                   protocol::DevicesWork, protocol::DevicesKept, protocol::JobEnded>;
  using ToCompanion = std::variant<protocol::PlanQuery, protocol::CapabilityReport>;

  JobMail() = default;
  JobMail(const JobMail&) = delete;
  JobMail& operator=(const JobMail&) = delete;
  virtual ~JobMail() = default;

  // Through the gateway. REQUIRES: `frame` is not null.
  virtual void to_peer(const PeerId& peer, std::shared_ptr<const Frame> frame) = 0;
  virtual void to_cluster(const ToCluster& value) = 0;
  virtual void to_companion(const ToCompanion& value) = 0;
  // To the companion, which answers with this number.
  virtual void list_plans(const protocol::PlanListQuery& query, std::uint64_t number) = 0;
  // To the cluster scheduler: a write failed. It says when the store has recovered.
  virtual void store_failed(const std::string& reason) = 0;
};

}  // namespace es::actors

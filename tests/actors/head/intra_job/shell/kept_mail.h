#pragma once
// A mail of a job that keeps what is sent.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/intra_job/shell/job_mail.h"
#include "proto/messages.h"

namespace es::actors {

class KeptMail : public JobMail {
 public:
  void to_peer(const PeerId& peer, std::shared_ptr<const Frame> frame) override {
    frames.emplace_back(peer, std::move(frame));
  }
  void to_cluster(const ToCluster& value) override { to_cluster_.push_back(value); }
  void to_companion(const ToCompanion& value) override { to_companion_.push_back(value); }
  void list_plans(const protocol::PlanListQuery&, std::uint64_t number) override {
    plan_lists.push_back(number);
  }
  void store_failed(const std::string& reason) override { store_failures.push_back(reason); }

  // The types of the messages to this peer, in their order.
  std::vector<MessageType> types_to(const PeerId& peer) const {
    std::vector<MessageType> types;
    for (const auto& [to, frame] : frames)
      if (to == peer) types.push_back(frame->envelope.type);
    return types;
  }
  // The newest message. REQUIRES: there is one, and it is of this type.
  template <class Schema>
  Msg<Schema> last() const {
    return Msg<Schema>::from_frame(frames.back().second).value();
  }
  template <class Value>
  int count_to_cluster() const {
    int count = 0;
    for (const ToCluster& value : to_cluster_) count += std::holds_alternative<Value>(value);
    return count;
  }

  std::vector<std::pair<PeerId, std::shared_ptr<const Frame>>> frames;
  std::vector<std::uint64_t> plan_lists;
  std::vector<std::string> store_failures;

 private:
  std::vector<ToCluster> to_cluster_;
  std::vector<ToCompanion> to_companion_;
};

// A request of a client.
template <class Schema, class Fill>
Inbound from_client(const PeerId& client, std::uint64_t number, Fill&& fill) {
  const auto message = Msg<Schema>::build({.job = "j", .request = number}, fill);
  return {.from = client, .frame = message.frame()};
}

}  // namespace es::actors

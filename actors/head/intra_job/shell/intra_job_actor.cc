#include "actors/head/intra_job/shell/intra_job_actor.h"

#include <caf/all.hpp>

#include <utility>
#include <variant>

#include "actors/base/protocol/wire/job_cluster_codec.h"
#include "actors/head/store_atoms.h"

namespace es::actors {
namespace {

using TickAtom = caf::atom_constant<caf::atom("tick")>;

class CafMail : public JobMail {
 public:
  CafMail(caf::event_based_actor* self, JobId job, const IntraJobPeers& peers)
      : self_(self),
        job_(std::move(job)),
        cluster_(peers.cluster),
        companion_(peers.companion),
        gateway_(peers.gateway) {}

  void to_peer(const PeerId& peer, std::shared_ptr<const Frame> frame) override {
    self_->send(gateway_, Outbound{peer, std::move(frame)});
  }
  void to_cluster(const ToCluster& value) override {
    std::visit([&](const auto& v) { self_->send(cluster_, protocol::message_of(job_, v)); }, value);
  }
  void to_companion(const ToCompanion& value) override {
    std::visit([&](const auto& v) { self_->send(companion_, protocol::message_of(job_, v)); },
               value);
  }
  void list_plans(const protocol::PlanListQuery& query, std::uint64_t number) override {
    self_->send(companion_, protocol::message_of(query, number));
  }
  void store_failed(const std::string& reason) override {
    self_->send(cluster_, StoreFailedAtom::value, reason);
  }

 private:
  caf::event_based_actor* self_;
  JobId job_;
  caf::actor cluster_, companion_, gateway_;
};

}  // namespace

void IntraJobState::init(caf::stateful_actor<IntraJobState>* self, IntraJobOptions options,
                         const IntraJobPeers& peers) {
  self_ = self;
  mail_ = std::make_unique<CafMail>(self, options.job, peers);
  timer_ = std::make_unique<JobTimer>(
      [self](Instant delay) { self->delayed_send(self, delay, TickAtom::value); });
  auto job = IntraJob::create(
      std::move(options),
      {.store = peers.store,
       .present_nodes = peers.present_nodes,
       .mail = *mail_,
       .timer = *timer_,
       .clock = [self] { return Instant(self->clock().now().time_since_epoch()); }});
  // Without its ledger the head could not notice that the job computes other bits than before. So
  // it ends and names the damage.
  if (!job) {
    self_->send(peers.cluster, HistoryUnreadableAtom::value, job.error().message);
    return self_->quit();
  }
  job_ = *std::move(job);
  job_->start();
}

void IntraJobState::tick() {
  timer_->fired();
  job_->tick();
  if (leaves_) leave();
}

void IntraJobState::leave() {
  leaves_ = true;
  if (!timer_->is_running()) self_->quit();
}

caf::behavior intra_job_actor(caf::stateful_actor<IntraJobState>* self, IntraJobOptions options,
                              const IntraJobPeers& peers) {
  self->state.init(self, std::move(options), peers);
  // A normal exit message means that the job is to be forgotten. CAF actors ignore it by default.
  self->set_exit_handler([=](caf::exit_msg& exit) {
    exit.reason ? self->quit(std::move(exit.reason)) : self->state.leave();
  });
  return {
      [=](const Inbound& inbound) { self->state.job().on_inbound(inbound); },
      [=](const Msg<wire::Allocation>& m) { self->state.job().on_allocation(*m.view()); },
      [=](const Msg<wire::DemandRefused>& m) { self->state.job().on_refused(*m.view()); },
      [=](const Msg<wire::Inventory>& m) { self->state.job().on_inventory(m); },
      [=](const Msg<wire::PlanAnswer>& m) { self->state.job().on_plans(*m.view()); },
      [=](const Msg<wire::PlanList>& m) { self->state.job().on_plan_list(m); },
      [=](const PeerDown& down) { self->state.job().on_peer_down(down); },
      [=](const Msg<wire::DescribeJob>&) { return self->state.job().details(); },
      [=](const Msg<wire::CancelJob>&) { self->state.job().cancel_unasked(); },
      [=](StoreRecoveredAtom) { self->state.job().on_store_recovered(); },
      [=](TickAtom) { self->state.tick(); },
  };
}

}  // namespace es::actors

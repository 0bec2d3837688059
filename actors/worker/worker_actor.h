#pragma once
// WorkerActor: the control half of a worker. A thin shell around WorkerCore: decodes, asks the
// core, performs its effects. It must answer the head while a kernel runs, so it never computes.
//
// Accepts   Inbound frames of the head (round.capnp) and of other workers of the job (step.capnp);
//           what is malformed, of another job, or claims another sender than its link is counted
//           and dropped. PeerUp of the head: Hello. PeerDown of a worker: its messages may be lost.
//           FetchPart of a worker on another host: a piece of a segment of the current generation.
//           StatePart of the head: a piece of a saved state that lies on another node's disk.
//           OpenChannel of a worker: the other end of a channel. DeviceEvent, DeviceStats,
//           CopiedOut from the device half, ChannelReport from the channel thread.
// Sends     Outbound to the gateway (head, peers); DeviceCommand to the device half, and CopyOut
// for
//           what lies in device memory and cannot go by a channel (any more). To a worker on
//           another host bulk data goes inside its message, or when it is large in pieces on
//           request. Between devices that a channel joins, gradients go through it: the message
//           says only that they do (channel_book.h).
// State     the core's. Nothing durable.
// Fails     Ends the process when the core says Exit (released) or Abort (a broken invariant); the
//           node agent reports that to the head.
// Order     As the gateway promises: first in, first out per peer.
// Limits    Early step messages wait in the core, at most one step of them.
// Threads   Cooperative; never blocks.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "actors/data_plane/segment.h"
#include "actors/gateway/gateway_messages.h"
#include "actors/worker/bulk_pull.h"
#include "actors/worker/channel_book.h"
#include "actors/worker/channel_exchange.h"
#include "actors/worker/device_messages.h"
#include "actors/worker/state_pull.h"
#include "actors/worker/transport.h"
#include "actors/worker/worker_core.h"
#include "proto/messages.h"

namespace es::actors {

struct WorkerOptions {
  JobId job;
  worker::WorkerConfig core;  // `address` is set by BeginWork
  std::string head_endpoint;
  // Not empty: the device could not be set up (a bad dataset, say). The worker then only tells the
  // head, and waits to be released.
  std::string setup_error;
  std::shared_ptr<AbandonedBelow> abandoned_below;
  std::filesystem::path pull_directory{};  // for a saved state that is brought from another node
};

// worker process -> control, once: what could not exist before this actor did. Without a device the
// set-up has failed.
struct BeginWork {
  caf::actor gateway;
  std::string address;  // where peers reach this process
  caf::actor device;
  std::shared_ptr<worker::ChannelThread> channels;  // nullptr: nothing joins the device to others
};

// channel thread -> control
struct ChannelReport {
  worker::ChannelEvent event;
};

class WorkerState {
 public:
  void init(caf::stateful_actor<WorkerState>* self, WorkerOptions options);
  void begin(const BeginWork& begin);
  void on_inbound(const Inbound& inbound);
  void on_peer_up(const PeerUp& up);
  void on_peer_down(const PeerDown& down);
  void on_device(const DeviceEvent& event);
  void on_stats(const DeviceStats& stats);
  void on_channel(const ChannelReport& report);
  void on_copied_out(const CopiedOut& copied);
  void tick();

 private:
  void perform(worker::Effects effects);
  void perform_effect(const worker::SendHead& effect);
  void perform_effect(const worker::SendPeer& effect);
  void perform_effect(const worker::AbandonGenerations& effect);
  void perform_effect(const worker::PullState& effect);
  void perform_effect(const worker::Exit& effect);
  void perform_effect(const worker::Abort& effect);
  void perform_effect(const worker::ReportAnomaly& effect);
  template <class EngineEffect>
  void perform_effect(const EngineEffect& effect);
  worker::Transport best_transport(const protocol::ChannelPoint& channel,
                                   const std::string& host_id) const;
  worker::Transport choose_transport(const worker::SendPeer& effect);
  bool needs_host_copies() const;
  Status make_bulk_reachable(protocol::PeerMessage& message);
  void put_into_channel(Incarnation to, protocol::PeerMessage& message);
  void on_open_channel(const Inbound& inbound);
  void send(const worker::StatePull::Outcome& outcome);
  void give_up_pull(const std::string& error, bool gone);
  void on_state_part(const Inbound& inbound);
  void take_state_part(wire::StatePart::Reader r);
  void on_channel_message(const PeerId& from, protocol::PeerMessage message);
  void on_event(const worker::ChannelOffered& event);
  void on_event(const worker::ChannelReady& event);
  void on_event(const worker::BytesReceived& event);
  void on_event(const worker::ChannelBroken& event);
  void on_lost(Incarnation peer, const std::string& error);
  void on_peer_message(const Inbound& inbound);
  void on_fetch_part(const Inbound& inbound);
  void on_bulk_part(const Inbound& inbound);
  void perform(worker::BulkPull::Outcome outcome);
  void send_part(const PeerId& to, const std::string& segment, std::uint64_t offset,
                 std::uint32_t bytes);
  ::es::Head stamped() const;
  void count_refused(const PeerId& from, const std::string& why);
  Instant now() const;

  caf::stateful_actor<WorkerState>* self_ = nullptr;
  WorkerOptions options_;
  caf::actor gateway_, device_;
  std::optional<worker::WorkerCore> core_;
  std::set<std::string> connected_;      // "peer endpoint" pairs that the gateway was told
  SegmentCache own_segments_;            // to send what a peer on another host cannot map
  worker::BulkPull pull_;                // what peers on other hosts have announced
  protocol::FromCheckpoint state_from_;  // what state_pull_ gets
  std::unique_ptr<worker::StatePull> state_pull_;  // none: nothing is on its way
  std::shared_ptr<worker::ChannelThread> channels_;
  worker::ChannelBook channel_book_{0};  // as many as `channels_` has
  worker::ChannelInbox channel_inbox_;
  std::set<Incarnation> joined_;  // by a channel, once
  std::uint64_t refused_ = 0;
};

caf::behavior worker_actor(caf::stateful_actor<WorkerState>* self, WorkerOptions options);

PeerId worker_peer(Incarnation incarnation);

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::BeginWork)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::ChannelReport)

#pragma once
// WorkerActor: the control half of a worker. It is a thin shell around WorkerCore: it decodes a
// message, asks the core and performs the effects. It must answer the head while a kernel runs, so
// it never computes.
//
// Accepts   BeginWork from the main thread, once.
//           Inbound frames of the head (round.capnp) and of other workers of the job (step.capnp).
//           A frame is counted and dropped if it is malformed, belongs to another job, or names
//           another sender than that of its link.
//           PeerUp of the head: the answer is Hello, or Failed if the device could not be set up.
//           PeerDown of a worker: messages of this worker may be lost.
//           FetchPart of a worker on another host: a request for a piece of a segment of this
//           generation. BulkPart: the piece that this worker has requested from another one.
//           StatePart of the head: a piece of a saved state on another node's disk.
//           TraceWorker of the head: record what this process does.
//           OpenChannel of a worker: the offer of a channel.
//           DeviceEvent, DeviceStats, DeviceTraced and CopiedOut from the device half;
//           ChannelReport from the channel thread.
//           A tick of its own, once per second.
// Sends     ConnectPeer and Outbound to the gateway, for the head and for peers; DeviceCommand to
//           the device half; commands to the channel thread (channel_exchange.h).
//           TraceAnswer and TracePart to the head; TraceDevice to the device half.
//           CopyOut to the device half, if data is only in device memory and cannot travel by a
//           channel.
//           Bulk data for a worker on another host travels inside its message, or in pieces on
//           request if it is large. Gradients for a device with a channel travel through the
//           channel, and the message only announces them (channel_book.h).
// State     That of the core. Nothing is durable.
// Fails     It ends the process when the core returns Exit (released) or Abort (a broken
//           invariant). The node agent reports the end to the head.
// Order     First in, first out for each peer, as the gateway promises.
// Limits    Early step messages wait in the core; they belong to one step at most. Bulk data from
//           another host is requested in windows of a few pieces (bulk_pull.h).
// Threads   Cooperative; it never blocks.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "actors/base/data_plane/segment.h"
#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/tracing/core/worker_trace.h"
#include "actors/worker/core/bulk_pull.h"
#include "actors/worker/core/channel_book.h"
#include "actors/worker/core/transport.h"
#include "actors/worker/core/worker_core.h"
#include "actors/worker/device/channel_exchange.h"
#include "actors/worker/shell/device_messages.h"
#include "actors/worker/shell/step_work.h"
#include "actors/worker/state/state_pull.h"
#include "proto/messages.h"

namespace es::actors {

struct WorkerOptions {
  JobId job;
  worker::WorkerConfig core;  // BeginWork sets `address`
  std::string head_endpoint;
  // Not empty if the device could not be set up, for example because of a bad data set. The worker
  // then only reports this error to the head and waits until it is released.
  std::string setup_error;
  std::shared_ptr<AbandonedBelow> abandoned_below;
  std::shared_ptr<StepWork> step_work;
  std::shared_ptr<tracing::Recorder> recorder{};  // of this process
  Version last_version = 0;                       // of the job
  std::filesystem::path pull_directory{};         // for a saved state from another node
};

// From the main thread, once: the things that are created after this actor. `device` is null if the
// set-up has failed.
struct BeginWork {
  caf::actor gateway;
  std::string address;  // where peers reach this process
  caf::actor device;
  std::shared_ptr<worker::ChannelThread> channels;  // nullptr if the device has no channels
};

// From the channel thread.
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
  void on_link(const PeerUp& up);
  void on_device(const DeviceEvent& event);
  void on_stats(const DeviceStats& stats);
  void on_channel(const ChannelReport& report);
  void on_copied_out(const CopiedOut& copied);
  void on_traced(const DeviceTraced& traced);
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
  worker::PeerDevice own_device() const { return {options_.core.host_id, options_.core.channel}; }
  Status make_bulk_reachable(protocol::PeerMessage& message);
  void count_sent(worker::Transport transport, protocol::PeerMessage& message);
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
  void on_bulk_lost(Incarnation peer, const std::string& error);
  void on_peer_message(const Inbound& inbound);
  void on_fetch_part(const Inbound& inbound);
  void on_bulk_part(const Inbound& inbound);
  void perform(worker::BulkPull::Outcome outcome);
  void take(const protocol::PeerMessage& message);
  // Traces (worker_trace.cc).
  void on_trace(const Inbound& inbound);
  template <class Effect>
  void note(const Effect&) {}
  void note(const worker::StartLocalSteps& effect);
  void note(const worker::ApplyUpdate& effect);
  void note(const worker::UpdateShards& effect);
  void note(const worker::EngineEvent& event);
  void note_exchange(const protocol::PeerMessage& message, Incarnation peer, bool sent,
                     Instant begin);
  void send_trace(tracing::WorkerTrace::Send when);
  void send_trace_after(const worker::EngineEvent& event);
  void send_part(const PeerId& to, const std::string& segment, std::uint64_t offset,
                 std::uint32_t bytes);
  ::es::Envelope stamped() const;
  void count_refused(const PeerId& from, const std::string& why);
  Instant now() const;

  caf::stateful_actor<WorkerState>* self_ = nullptr;
  WorkerOptions options_;
  caf::actor gateway_, device_;
  std::optional<worker::WorkerCore> core_;
  std::set<std::string> connected_;      // "peer endpoint" pairs that the gateway knows
  SegmentCache own_segments_;            // to send data that a peer on another host cannot map
  worker::BulkPull bulk_pull_;           // data that peers on other hosts have announced
  protocol::FromCheckpoint state_from_;  // the source of state_pull_
  std::unique_ptr<worker::StatePull> state_pull_;  // null if no saved state is being fetched
  std::shared_ptr<worker::ChannelThread> channels_;
  worker::ChannelBook channel_book_{0};  // begin() sets the number of channels of `channels_`
  worker::ChannelInbox channel_inbox_;
  std::set<Incarnation> channel_peers_;  // peers that were connected by a channel at least once
  std::optional<tracing::WorkerTrace> trace_;
  std::uint64_t refused_ = 0;
  // Bulk data sent since the last WorkerStats.
  std::uint64_t message_bytes_ = 0, shared_memory_bytes_ = 0, channel_bytes_ = 0;
};

caf::behavior worker_actor(caf::stateful_actor<WorkerState>* self, WorkerOptions options);

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::BeginWork)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::ChannelReport)

#include "actors/worker/shell/worker_actor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <caf/all.hpp>

#include <numeric>
#include <utility>

#include "actors/base/log/log.h"
#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/base/protocol/wire/codec.h"
#include "proto/base/kill_point.h"
#include "proto/messages.h"

namespace es::actors {
namespace {

using TickAtom = caf::atom_constant<caf::atom("tick")>;

constexpr auto kTickInterval = std::chrono::seconds(1);

double peak_rss_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

}  // namespace

void WorkerState::init(caf::stateful_actor<WorkerState>* self, WorkerOptions options) {
  self_ = self;
  options_ = std::move(options);
}

void WorkerState::begin(const BeginWork& begin) {
  gateway_ = begin.gateway;
  device_ = begin.device;
  channels_ = begin.channels;
  if (channels_) channel_book_ = worker::ChannelBook(channels_->channels_max());
  // The address is known only now, because the gateway chooses a port when it begins to listen.
  options_.core.address = begin.address;
  core_.emplace(options_.core);
  trace_.emplace(*options_.recorder);
  self_->send(gateway_, ConnectPeer{kHeadPeer, options_.head_endpoint});
  self_->delayed_send(self_, kTickInterval, TickAtom::value);
}

Instant WorkerState::now() const {
  return self_->clock().now().time_since_epoch();
}

void WorkerState::on_peer_up(const PeerUp& up) {
  if (up.peer != kHeadPeer) return on_link(up);
  // A worker that could not set up its device still connects, so that the reason reaches the user
  // through the head. It says so after every connection, because a link that breaks may lose it.
  perform(options_.setup_error.empty() ? core_->hello()
                                       : core_->setup_failed(options_.setup_error));
}

void WorkerState::on_inbound(const Inbound& inbound) {
  if (!core_) return;  // no other process can know this one yet
  const Envelope& envelope = inbound.frame->envelope;
  if (envelope.job != options_.job) return count_refused(inbound.from, "another job");
  // The gateway has verified the sender. A message of the head counts only if the head sent it, and
  // one of a worker only if that worker sent it.
  if (protocol::is_head_message(envelope.type) && inbound.from == kHeadPeer) {
    const auto message = protocol::decode_head(inbound.frame);
    if (!message) return count_refused(inbound.from, message.error().message);
    return perform(core_->on(*message, now()));
  }
  if (envelope.type == MessageType::kStatePart && inbound.from == kHeadPeer)
    return on_state_part(inbound);
  if (envelope.type == MessageType::kTraceWorker && inbound.from == kHeadPeer)
    return on_trace(inbound);
  if (inbound.from == worker_peer(envelope.sender)) return on_peer_message(inbound);
  count_refused(inbound.from, "not a message that this peer may send");
}

void WorkerState::on_device(const DeviceEvent& event) {
  if (trace_->running() == 0) return perform(core_->on(event.event, now()));
  note(event.event);
  perform(core_->on(event.event, now()));
  send_trace_after(event.event);
}

::es::Envelope WorkerState::stamped() const {
  Envelope envelope;
  envelope.job = options_.job;
  envelope.generation = core_->generation();
  envelope.sender = options_.core.self;
  return envelope;
}

void WorkerState::on_stats(const DeviceStats& stats) {
  const auto message = Msg<wire::WorkerStats>::build(stamped(), [&](wire::WorkerStats::Builder b) {
    b.setVersion(stats.version);
    const std::vector<double>& seconds = stats.est_seconds;
    const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    b.setLocalStepSeconds(all / static_cast<double>(seconds.size()));
    auto list = b.initEstSeconds(static_cast<unsigned>(seconds.size()));
    for (unsigned i = 0; i < seconds.size(); ++i) list.set(i, seconds[i]);
    b.setPeakRssMib(peak_rss_mib());
    b.setPid(static_cast<std::uint64_t>(::getpid()));
    b.setLiveGradientBuffersMax(stats.live_gradient_buffers_max);
    b.setContextSwitchSeconds(stats.context_switch_seconds);
    b.setDataWaitSeconds(stats.data_wait_seconds);
    b.setMessageBytes(std::exchange(message_bytes_, 0));
    b.setSharedMemoryBytes(std::exchange(shared_memory_bytes_, 0));
    b.setChannelBytes(std::exchange(channel_bytes_, 0));
  });
  self_->send(gateway_, Outbound{kHeadPeer, message.frame()});
}

void WorkerState::tick() {
  channel_book_.tick(now());
  perform(core_->tick(now()));
  self_->delayed_send(self_, kTickInterval, TickAtom::value);
}

void WorkerState::perform(worker::Effects effects) {
  for (const worker::Effect& effect : effects)
    std::visit([this](const auto& e) { perform_effect(e); }, effect);
}

void WorkerState::perform_effect(const worker::SendHead& effect) {
  self_->send(gateway_, Outbound{kHeadPeer, protocol::encode(options_.job, effect.message)});
}

void WorkerState::perform_effect(const worker::SendPeer& effect) {
  const PeerId peer = worker_peer(effect.to);
  // The gateway keeps what is sent to a peer until the link is up, so the message can be sent at
  // once.
  if (connected_.insert(peer + " " + effect.address).second) {
    self_->send(gateway_, ConnectPeer{peer, effect.address});
    perform(core_->on(worker::LinkEvent(worker::LinkAwaited{effect.to}), now()));
  }
  const Instant begin = now();
  // A copy, because the transport changes where the message says that its bulk data is.
  protocol::PeerMessage message = effect.message;
  const worker::TransportChoice choice = worker::choose_transport(
      own_device(), {effect.host_id, effect.channel}, effect.to, message, channel_book_);
  if (choice.offer_channel)
    channels_->perform(worker::OfferChannel{core_->generation(), effect.to});
  // Only the device half can copy out of device memory. It returns the message as CopiedOut, and
  // this function is then called again.
  if (choice.copy_out_first) return self_->send(device_, CopyOut{effect});
  count_sent(choice.transport, message);
  if (choice.transport == worker::Transport::kChannel) put_into_channel(effect.to, message);
  if (choice.transport == worker::Transport::kMessages)
    if (const Status status = make_bulk_reachable(message); !status.ok())
      return perform_effect(worker::ReportAnomaly{status.error().message});
  self_->send(gateway_, Outbound{peer, protocol::encode(options_.job, message)});
  if (trace_->running() != 0) note_exchange(effect.message, effect.to, true, begin);
}

void WorkerState::count_sent(worker::Transport transport, protocol::PeerMessage& message) {
  std::uint64_t& sum = transport == worker::Transport::kChannel        ? channel_bytes_
                       : transport == worker::Transport::kSharedMemory ? shared_memory_bytes_
                                                                       : message_bytes_;
  for (const protocol::Bulk* bulk : worker::bulks_of(message)) sum += bulk->bytes;
}

void WorkerState::perform_effect(const worker::AbandonGenerations& effect) {
  if (trace_->running() != 0) {
    // After the round this worker may have no ranks any more, and then its process ends.
    trace_->abandon();
    send_trace(tracing::WorkerTrace::Send::kNow);
  }
  // The device half reads this number between two slices, so it stops although the command below
  // waits in its mailbox.
  options_.abandoned_below->store(effect.before.value);
  options_.step_work->wake();
  own_segments_.clear();
  bulk_pull_.abandon(effect.before);
  state_pull_.reset();
  channel_book_.abandon();
  channel_inbox_.abandon();
  if (channels_) channels_->perform(worker::BeginGeneration{effect.before});
  if (device_) self_->send(device_, DeviceCommand{effect});
}

template <class EngineEffect>
void WorkerState::perform_effect(const EngineEffect& effect) {
  ES_CHECK_MSG(device_, "the core gives the device work although its set-up failed");
  // The device half is informed with each command whether any member still reads host memory, since
  // a channel may have opened or broken meanwhile.
  if (trace_->running() != 0) note(effect);
  const bool host_copies =
      worker::needs_host_copies(own_device(), options_.core.self, core_->members(), channel_book_);
  DeviceCommand command{effect, host_copies};
  if (!is_step_work(command.effect)) return self_->send(device_, std::move(command));
  options_.step_work->add(std::move(command));
  self_->send(device_, DoStepWork{});
}

void WorkerState::perform_effect(const worker::Exit&) {
  kill_point("exit");
  self_->quit(caf::exit_reason::user_shutdown);
}

void WorkerState::perform_effect(const worker::Abort& effect) {
  ES_CHECK_MSG(false, "protocol violated: " + effect.reason);
}

void WorkerState::perform_effect(const worker::ReportAnomaly& effect) {
  log::warning(effect.text);
}

void WorkerState::count_refused(const PeerId& from, const std::string& why) {
  ++refused_;
  log::warning("refused message " + std::to_string(refused_) + ": " + why, {.peer = from});
}

caf::behavior worker_actor(caf::stateful_actor<WorkerState>* self, WorkerOptions options) {
  self->state.init(self, std::move(options));
  return {
      [=](const Inbound& inbound) { self->state.on_inbound(inbound); },
      [=](const PeerUp& up) { self->state.on_peer_up(up); },
      [=](const PeerDown& down) { self->state.on_peer_down(down); },
      [=](const DeviceEvent& event) { self->state.on_device(event); },
      [=](const DeviceStats& stats) { self->state.on_stats(stats); },
      [=](const ChannelReport& report) { self->state.on_channel(report); },
      [=](const CopiedOut& copied) { self->state.on_copied_out(copied); },
      [=](const DeviceTraced& traced) { self->state.on_traced(traced); },
      [=](const BeginWork& begin) { self->state.begin(begin); },
      [=](TickAtom) { self->state.tick(); },
  };
}

}  // namespace es::actors

// The client half of the intra-job scheduler: requests of esctl about this job.
#include <caf/all.hpp>

#include <bit>

#include "actors/base/protocol/core/durations.h"
#include "actors/base/protocol/wire/shared_body.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "actors/base/protocol/wire/wire_error.h"
#include "actors/head/intra_job/shell/intra_job_actor.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

float mean_loss_of(const std::optional<protocol::LedgerLine>& line) {
  return line ? static_cast<float>(intra_job::mean_loss(*line)) : std::nanf("");
}

// Returns whether the request changes journaled state.
bool is_command(MessageType type) {
  return type == MessageType::kScaleJob || type == MessageType::kCheckpointJob ||
         type == MessageType::kPauseJob || type == MessageType::kResumeJob ||
         type == MessageType::kBudgetJob || type == MessageType::kCancelJob;
}

}  // namespace

template <class Schema, class Fill>
void IntraJobState::answer(const PeerId& client, std::uint64_t request, Fill&& fill) {
  send_to(client, Msg<Schema>::build({.job = options_.job, .request = request}, fill).frame());
}

void IntraJobState::refuse(const PeerId& client, std::uint64_t request, const Error& error) {
  answer<wire::Refusal>(client, request, [&](wire::Refusal::Builder b) {
    b.setKind(to_wire(error.kind));
    b.setMessage(error.message);
  });
}

void IntraJobState::on_client(const Inbound& inbound) {
  if (is_command(inbound.frame->envelope.type))
    if (const Status accepting = check_accepting(); !accepting.ok())
      return refuse(inbound.from, inbound.frame->envelope.request, accepting.error());
  switch (inbound.frame->envelope.type) {
    case MessageType::kDescribeJob:
      return describe(inbound);
    case MessageType::kFollowJob:
      return follow(inbound);
    case MessageType::kScaleJob:
      return scale(inbound);
    case MessageType::kCheckpointJob:
      return checkpoint(inbound);
    case MessageType::kPauseJob:
      return pause(inbound);
    case MessageType::kResumeJob:
      return resume(inbound);
    case MessageType::kBudgetJob:
      return budget(inbound);
    case MessageType::kCancelJob:
      return cancel(inbound);
    case MessageType::kListPlans:
      return list_plans(inbound);
    case MessageType::kTraceJob:
      return begin_trace(inbound);
    default:
      refuse(inbound.from, inbound.frame->envelope.request,
             usage_error("not a request about a job: message type " +
                         std::to_string(static_cast<int>(inbound.frame->envelope.type))));
  }
}

// The end of a job is shown after it is on disk. Until then the ledger of the job lacks lines, and
// a head that dies would compute the last steps again.
JobState IntraJobState::shown_state() const {
  return is_over(core_->state()) && !held_.empty() ? JobState::kRunning : core_->state();
}

JobView IntraJobState::view(JobState state) const {
  const JobSpec& spec = options_.config.spec;
  JobView v;
  v.id = options_.job;
  v.name = spec.name;
  v.state = state_name(state);
  v.level = level_name(spec.level);
  v.tenant = spec.resources.tenant;
  v.max_p = spec.max_p;
  v.step = core_->ledger().through();
  v.last_step = options_.config.last_version;
  v.placement = is_over(state) ? "" : core_->placement();
  v.loss_first = mean_loss_of(core_->ledger().first());
  v.loss_last = mean_loss_of(core_->ledger().last());
  v.peak_rss_mib = peak_rss_mib_;
  if (const double all = compute_seconds_ + switch_seconds_ + wait_seconds_; all > 0) {
    v.context_switch_share = switch_seconds_ / all;
    v.data_wait_share = wait_seconds_ / all;
  }
  v.error = core_->error();
  v.waiting_for = core_->waiting_for();
  v.devices_wanted = core_->devices_wanted();
  v.submitted_unix_ms = options_.record.submitted_unix_ms;
  if (is_over(state)) v.ended_unix_ms = ended_unix_ms_;
  if (const CheckpointRef* newest = core_->record().newest_checkpoint())
    v.checkpoint = newest->path;
  v.warning = core_->warning();
  if (const std::string store = store_warning(); !store.empty())
    v.warning = store + (v.warning.empty() ? "" : "; " + v.warning);
  if (const auto& last = core_->ledger().last()) {
    v.params_digest = last->params.hex();
    if (last->state) v.state_digest = last->state->hex();
  }
  // A global step trains one mini-batch of each EST.
  const double step_samples = static_cast<double>(spec.max_p) * spec.batch_size;
  double training = 0;
  std::uint64_t steps = 0;
  for (const intra_job::StageReport& s : core_->stage_reports(now())) {
    v.stages.push_back({s.placement, s.steps, in_seconds(s.training), in_seconds(s.rescale)});
    training += in_seconds(s.training);
    steps += s.steps;
  }
  if (training > 0)
    v.samples_per_second_mean = static_cast<double>(steps) * step_samples / training;
  v.samples_per_second_now = core_->steps_per_second(now()) * step_samples;
  v.step_times = core_->step_times();
  for (std::size_t i = 0; i < intra_job::kPauseCauses; ++i)
    if (const intra_job::PauseReport& pauses = core_->pauses().at(i); pauses.count > 0)
      v.pauses.push_back({intra_job::cause_name(static_cast<intra_job::PauseCause>(i)),
                          pauses.count, in_seconds(pauses.duration)});
  v.message_bytes = message_bytes_;
  v.shared_memory_bytes = shared_memory_bytes_;
  v.channel_bytes = channel_bytes_;
  v.checkpoints_written = core_->checkpoint_counts().written;
  v.checkpoints_failed = core_->checkpoint_counts().failed;
  v.checkpoint_seconds = core_->checkpoint_counts().seconds;
  v.repeated_steps = repeated_steps_;
  v.start_retries = core_->start_retries();
  v.spent = core_->record().spent;
  v.price_per_hour = core_->fleet().price_per_hour();
  v.budget = core_->record().budget;
  for (const auto& [version, evaluation] : evaluations_) v.evaluations.push_back(evaluation);
  for (const protocol::Member& member : core_->members()) {
    const auto at = core_->fleet().workers().find(member.incarnation);
    if (at == core_->fleet().workers().end()) continue;
    v.workers.push_back(worker_view(member, at->second.device));
  }
  return v;
}

WorkerView IntraJobState::worker_view(const protocol::Member& member,
                                      const DeviceId& device) const {
  WorkerView v{.incarnation = member.incarnation.value,
               .node = device.node,
               .device_type = device.type.name,
               .device_index = device.index,
               .rank_begin = member.ranks.begin,
               .rank_end = member.ranks.end};
  if (const auto pid = pids_.find(member.incarnation); pid != pids_.end()) v.pid = pid->second;
  v.local_step_seconds = planner_->speeds().local_step_seconds(device).value_or(0);
  if (v.local_step_seconds > 0)
    v.samples_per_second = options_.config.spec.batch_size / v.local_step_seconds;
  v.slowness = planner_->speeds().slowness(device);
  const auto ests = est_seconds_.find(member.incarnation);
  if (ests != est_seconds_.end()) v.est_seconds = ests->second;
  return v;
}

void IntraJobState::fill_details(wire::JobDetails::Builder b, JobState state) const {
  put(b.initInfo(), view(state));
  b.setSpecToml(options_.record.spec_toml);
  const std::vector<intra_job::SpanReport> spans = core_->spans(now());
  auto timeline = b.initTimeline(static_cast<unsigned>(spans.size()));
  for (unsigned i = 0; i < timeline.size(); ++i) {
    const intra_job::SpanReport& s = spans[i];
    put(timeline[i], SpanView{.begin_seconds = in_seconds(s.begin),
                              .seconds = in_seconds(s.training),
                              .pause_seconds = in_seconds(s.pause),
                              .cause = s.pause > Instant{} ? intra_job::cause_name(s.cause) : "",
                              .first_step = s.first,
                              .steps = s.steps,
                              .devices = s.devices});
  }
  const std::vector<intra_job::ProgressPoint>& points = core_->progress_points();
  auto progress = b.initProgress(static_cast<unsigned>(points.size()));
  for (unsigned i = 0; i < progress.size(); ++i) {
    progress[i].setSeconds(in_seconds(points[i].at));
    progress[i].setSteps(points[i].steps);
  }
}

Msg<wire::JobDetails> IntraJobState::details(JobState state) const {
  return Msg<wire::JobDetails>::build({.job = options_.job},
                                      [=, this](auto b) { fill_details(b, state); });
}

void IntraJobState::describe(const Inbound& inbound) {
  answer<wire::JobDetails>(inbound.from, inbound.frame->envelope.request,
                           [this](wire::JobDetails::Builder b) { fill_details(b, shown_state()); });
}

// --- followers

void IntraJobState::follow(const Inbound& inbound) {
  const auto request = Msg<wire::FollowJob>::from_frame(inbound.frame);
  if (!request) return;
  const auto read = request->decode([&](wire::FollowJob::Reader r) {
    const Follower follower{inbound.from, inbound.frame->envelope.request, r.getInfo()};
    if (r.getLogFromStart())
      for (const std::string& line : log_lines_) answer_log(follower, line);
    answer_info(follower, shown_state());
    // While a job ends, only the exits of processes and the writes to the disk are missing.
    // Followers that stay are told by JobEnded.
    const bool is_ending = core_->phase() == intra_job::Phase::kEnding || is_over(core_->state());
    if (r.getUntilNow() || (is_ending && core_->fleet().holds_nothing() && held_.empty()))
      return end_follower(follower), 0;
    followers_.push_back(follower);
    return 0;
  });
  if (!read) refuse(inbound.from, inbound.frame->envelope.request, read.error());
}

void IntraJobState::answer_log(const Follower& follower, const std::string& line) {
  answer<wire::JobEvent>(follower.client, follower.request,
                         [&](wire::JobEvent::Builder b) { b.setLogLine(line); });
}

void IntraJobState::answer_info(const Follower& follower, JobState state) {
  if (!follower.info) return;
  answer<wire::JobEvent>(follower.client, follower.request,
                         [&](wire::JobEvent::Builder b) { put(b.initInfo(), view(state)); });
}

void IntraJobState::end_follower(const Follower& follower) {
  answer<wire::JobEvent>(follower.client, follower.request,
                         [](wire::JobEvent::Builder b) { b.setEnded(); });
}

// All followers share one encoded body.
void IntraJobState::tell_followers_progress() {
  std::shared_ptr<const Frame> progress;
  for (const Follower& follower : followers_) {
    if (!follower.info) continue;
    if (!progress)
      progress = Msg<wire::JobEvent>::build({}, [&](wire::JobEvent::Builder b) {
                   put(b.initInfo(), view(shown_state()));
                 }).frame();
    send_to(follower.client,
            with_envelope(progress, {.job = options_.job, .request = follower.request}));
  }
}

// --- commands

std::uint64_t IntraJobState::remember(const Inbound& inbound) {
  const std::uint64_t number = next_command_++;
  commands_[number] = {inbound.from, inbound.frame->envelope.request};
  return number;
}

void IntraJobState::scale(const Inbound& inbound) {
  const auto request = Msg<wire::ScaleJob>::from_frame(inbound.frame);
  if (!request) return;
  const auto text =
      request->decode([](wire::ScaleJob::Reader r) { return name_of(r.getDevices(), "devices"); });
  const std::uint64_t number = inbound.frame->envelope.request;
  if (!text) return refuse(inbound.from, number, text.error());
  intra_job::ScaleCommand command;
  // An empty text gives the choice back to the policy (`esctl scale auto`).
  if (!text->empty()) {
    auto devices = parse_device_set(*text);
    if (!devices) return refuse(inbound.from, number, devices.error());
    command.devices = *std::move(devices);
  }
  command.request = remember(inbound);
  perform(core_->on(intra_job::Event(std::move(command)), now()));
}

void IntraJobState::checkpoint(const Inbound& inbound) {
  const auto request = Msg<wire::CheckpointJob>::from_frame(inbound.frame);
  if (!request) return;
  auto command = request->decode([](wire::CheckpointJob::Reader r) {
    return intra_job::CheckpointCommand{0, name_of(r.getDirectory(), "directory"), r.getAtEnd(),
                                        name_of(r.getOtherwise(), "otherwise")};
  });
  if (!command) return refuse(inbound.from, inbound.frame->envelope.request, command.error());
  // The worker that writes would find an existing directory too, but only at the end of the step.
  // It may be on another disk, so this check does not replace that one.
  std::error_code ignored;
  if (std::filesystem::exists(command->directory, ignored))
    return refuse(inbound.from, inbound.frame->envelope.request,
                  refused(command->directory + " exists: allowed is a new directory"));
  command->request = remember(inbound);
  perform(core_->on(intra_job::Event(*std::move(command)), now()));
}

void IntraJobState::pause(const Inbound& inbound) {
  perform(core_->on(intra_job::Event(intra_job::PauseCommand{remember(inbound)}), now()));
}

void IntraJobState::resume(const Inbound& inbound) {
  const auto request = Msg<wire::ResumeJob>::from_frame(inbound.frame);
  if (!request) return;
  const auto accept_loss =
      request->decode([](wire::ResumeJob::Reader r) { return r.getAcceptLoss(); });
  if (!accept_loss)
    return refuse(inbound.from, inbound.frame->envelope.request, accept_loss.error());
  perform(core_->on(intra_job::Event(intra_job::ResumeCommand{remember(inbound), *accept_loss}),
                    now()));
}

void IntraJobState::budget(const Inbound& inbound) {
  const auto request = Msg<wire::BudgetJob>::from_frame(inbound.frame);
  if (!request) return;
  const auto budget = request->decode([](wire::BudgetJob::Reader r) { return r.getBudget(); });
  const std::uint64_t number = inbound.frame->envelope.request;
  if (!budget) return refuse(inbound.from, number, budget.error());
  if (!(*budget >= 0 && *budget <= kBudgetMax))
    return refuse(inbound.from, number,
                  usage_error("budget: allowed is a number from 0 to 1e12; 0 for no budget"));
  perform(core_->on(intra_job::Event(intra_job::BudgetCommand{remember(inbound), *budget}), now()));
}

// The head is shutting down.
void IntraJobState::cancel_unasked() {
  perform(core_->on(intra_job::Event(intra_job::CancelCommand{0}), now()));
}

void IntraJobState::cancel(const Inbound& inbound) {
  perform(core_->on(intra_job::Event(intra_job::CancelCommand{remember(inbound)}), now()));
}

void IntraJobState::list_plans(const Inbound& inbound) {
  if (is_over(core_->state()))
    return refuse(inbound.from, inbound.frame->envelope.request, refused("the job has ended"));
  // The query gets a number of its own, because the request numbers of different clients may be
  // equal.
  const std::uint64_t number = next_command_++;
  plan_lists_[number] = {inbound.from, inbound.frame->envelope.request};
  self_->send(peers_.companion, protocol::message_of(planner_->list_query(planner_view()), number));
}

void IntraJobState::on_plan_list(const Msg<wire::PlanList>& list) {
  const auto at = plan_lists_.find(list.envelope().request);
  if (at == plan_lists_.end()) return;
  const auto [client, request] = at->second;
  plan_lists_.erase(at);
  auto view = list.view();
  answer<wire::PlanList>(client, request, [&](wire::PlanList::Builder b) {
    b.setPlans(view->getPlans());
    b.setComplete(view->getComplete());
    b.setSpeeds(view->getSpeeds());
    b.setPlacement(core_->placement());
    b.setPaceSeconds(planner_->pace_seconds());
  });
}

void IntraJobState::perform_effect(const intra_job::CommandDone& effect) {
  const auto at = commands_.find(effect.request);
  // The client was refused when the disk failed (tell_waiting_clients), or no client had asked.
  if (at == commands_.end()) return;
  const auto [client, request] = at->second;
  commands_.erase(at);
  if (effect.status.ok())
    answer<wire::Done>(client, request, [&](wire::Done::Builder b) { b.setNote(effect.note); });
  else
    refuse(client, request, effect.status.error());
}

void IntraJobState::perform_effect(const intra_job::CheckpointDone& effect) {
  const auto at = commands_.find(effect.request);
  if (at == commands_.end()) return;
  const auto [client, request] = at->second;
  commands_.erase(at);
  if (!effect.result) return refuse(client, request, effect.result.error());
  answer<wire::CheckpointTaken>(client, request, [&](wire::CheckpointTaken::Builder b) {
    b.setPath(effect.result->checkpoint.path);
    b.setVersion(effect.result->checkpoint.version);
    b.setParamsDigest(effect.result->digests.params.hex());
    b.setStateDigest(effect.result->digests.state.hex());
    b.setFirstError(effect.result->first_error);
  });
}

}  // namespace es::actors

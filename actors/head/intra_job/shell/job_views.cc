#include "actors/head/intra_job/shell/job_views.h"

#include <cmath>
#include <limits>
#include <optional>

#include "actors/base/protocol/core/instant.h"
#include "store/metrics/metric.h"

namespace es::actors {
namespace {

float mean_loss_of(const std::optional<protocol::LedgerLine>& line) {
  return line ? static_cast<float>(intra_job::mean_loss(*line)) : std::nanf("");
}

SpanView span_view(const intra_job::SpanReport& s) {
  return {.begin_seconds = in_seconds(s.begin),
          .seconds = in_seconds(s.training),
          .pause_seconds = in_seconds(s.pause),
          .cause = s.pause > Instant{} ? intra_job::cause_name(s.cause) : "",
          .first_step = s.first,
          .steps = s.steps,
          .devices = s.devices};
}

}  // namespace

JobState JobViews::shown_state() const {
  const JobState state = from_.core.state();
  return is_over(state) && !from_.effects.empty() ? JobState::kRunning : state;
}

bool JobViews::is_settled() const {
  const intra_job::JobCore& core = from_.core;
  const bool is_ending = core.phase() == intra_job::Phase::kEnding || is_over(core.state());
  return is_ending && core.fleet().holds_nothing() && from_.effects.empty();
}

std::string JobViews::store_warning() const {
  if (const auto& trouble = from_.effects.trouble())
    return trouble->message + "; the job continues to train on the devices that it has";
  const auto trouble = from_.archive.trouble();
  return trouble ? trouble->message : "";
}

JobView JobViews::view(JobState state) const {
  const intra_job::JobCore& core = from_.core;
  const JobSpec& spec = from_.config.spec;
  JobView v;
  v.id = from_.archive.record().id;
  v.name = spec.name;
  v.state = state_name(state);
  v.level = level_name(spec.level);
  v.tenant = spec.resources.tenant;
  v.max_p = spec.max_p;
  v.last_step = from_.config.last_version;
  v.placement = is_over(state) ? "" : core.placement();
  v.error = core.error();
  v.waiting_for = core.waiting_for();
  v.devices_wanted = core.devices_wanted();
  v.submitted_unix_ms = from_.archive.record().submitted_unix_ms;
  v.submitter = from_.archive.record().submitter;
  if (is_over(state)) v.ended_unix_ms = from_.archive.ended_unix_ms();
  if (const CheckpointRef* newest = core.record().newest_checkpoint()) v.checkpoint = newest->path;
  v.warning = core.warning();
  if (const std::string store = store_warning(); !store.empty())
    v.warning = store + (v.warning.empty() ? "" : "; " + v.warning);
  v.evaluations = from_.evaluations.all();
  v.decisions = decisions();
  from_.reports.put_into(v);
  put_course(v);
  put_counts(v);
  put_workers(v);
  return v;
}

// Its steps, and how fast they were.
void JobViews::put_course(JobView& v) const {
  const intra_job::JobCore& core = from_.core;
  const Instant now = from_.clock.now();
  v.step = core.ledger().through();
  v.loss_first = mean_loss_of(core.ledger().first());
  v.loss_last = mean_loss_of(core.ledger().last());
  if (const auto& last = core.ledger().last()) {
    v.params_digest = last->params.hex();
    if (last->state) v.state_digest = last->state->hex();
  }
  // A global step trains one mini-batch of each EST.
  const JobSpec& spec = from_.config.spec;
  const double step_samples = static_cast<double>(spec.max_p) * spec.batch_size;
  double training = 0;
  std::uint64_t steps = 0;
  for (const intra_job::StageReport& s : core.stage_reports(now)) {
    v.stages.push_back({s.placement, s.steps, in_seconds(s.training), in_seconds(s.rescale)});
    training += in_seconds(s.training);
    steps += s.steps;
  }
  if (training > 0)
    v.samples_per_second_mean = static_cast<double>(steps) * step_samples / training;
  v.samples_per_second_now = core.steps_per_second(now) * step_samples;
  v.step_times = core.step_times();
}

DecisionsView JobViews::decisions() const {
  const intra_job::EvaluationBook& book = from_.core.evaluations();
  const Version last = from_.core.last_version();
  DecisionsView v;
  v.best_metric = from_.config.spec.checkpoint.keep_best;
  if (const auto best = book.best()) {
    v.best_version = best->version;
    v.best_value = best->value;
  }
  if (const auto& kept = from_.core.record().best) v.best_checkpoint = kept->path;
  v.reductions = book.before(std::numeric_limits<Version>::max()).reductions;
  v.reduced_at = book.last_reduction().value_or(0);
  if (last < from_.config.last_version) v.stopped_at = last;
  return v;
}

// What it has cost, and what went wrong.
void JobViews::put_counts(JobView& v) const {
  const intra_job::JobCore& core = from_.core;
  for (std::size_t i = 0; i < intra_job::kPauseCauses; ++i)
    if (const intra_job::PauseReport& pauses = core.pauses().at(i); pauses.count > 0)
      v.pauses.push_back({intra_job::cause_name(static_cast<intra_job::PauseCause>(i)),
                          pauses.count, in_seconds(pauses.duration)});
  v.checkpoints_written = core.checkpoint_counts().written;
  v.checkpoints_failed = core.checkpoint_counts().failed;
  v.checkpoint_seconds = core.checkpoint_counts().seconds;
  v.repeated_steps = from_.lost_steps.total();
  v.start_retries = core.start_retries();
  v.spent = core.record().spent;
  v.price_per_hour = core.fleet().price_per_hour();
  v.budget = core.record().budget;
}

void JobViews::put_workers(JobView& v) const {
  const auto& workers = from_.core.fleet().workers();
  for (const protocol::Member& member : from_.core.members())
    if (const auto at = workers.find(member.incarnation); at != workers.end())
      v.workers.push_back(worker_view(member, at->second.device));
}

WorkerView JobViews::worker_view(const protocol::Member& member, const DeviceId& device) const {
  WorkerView v{.incarnation = member.incarnation.value,
               .node = device.node,
               .device_type = device.type.name,
               .device_index = device.index,
               .rank_begin = member.ranks.begin,
               .rank_end = member.ranks.end};
  const intra_job::JobSpeeds& speeds = from_.planner.speeds();
  v.local_step_seconds = speeds.local_step_seconds(device).value_or(0);
  if (v.local_step_seconds > 0)
    v.samples_per_second = from_.config.spec.batch_size / v.local_step_seconds;
  v.slowness = speeds.slowness(device);
  from_.reports.put_into(v);
  return v;
}

void JobViews::put_details(wire::JobDetails::Builder b, JobState state) const {
  put(b.initInfo(), view(state));
  b.setSpecToml(from_.archive.record().spec_toml);
  const std::vector<intra_job::SpanReport> spans = from_.core.spans(from_.clock.now());
  auto timeline = b.initTimeline(static_cast<unsigned>(spans.size()));
  for (unsigned i = 0; i < timeline.size(); ++i) put(timeline[i], span_view(spans[i]));
  const std::vector<intra_job::ProgressPoint>& points = from_.core.progress_points();
  auto progress = b.initProgress(static_cast<unsigned>(points.size()));
  for (unsigned i = 0; i < progress.size(); ++i) {
    progress[i].setSeconds(in_seconds(points[i].at));
    progress[i].setSteps(points[i].steps);
  }
}

Msg<wire::JobDetails> JobViews::details(JobState state) const {
  return Msg<wire::JobDetails>::build({.job = from_.archive.record().id},
                                      [&](auto b) { put_details(b, state); });
}

std::string EvaluationViews::add(Version version, std::span<const std::byte> bytes) {
  const std::string what = "evaluation of version " + std::to_string(version);
  const auto totals = store::MetricTotals::decode(bytes);
  if (!totals) return what + " cannot be read: " + totals.error().message;
  if (totals->samples == 0) return "";
  EvaluationView& view = views_[version];
  view = {version, totals->samples, {}};
  std::string text;
  if (totals->not_finite > 0)
    text = ": not finite: " + std::to_string(totals->not_finite) + " of " +
           std::to_string(totals->samples) +
           " samples have an output or a loss that is NaN or infinite";
  for (const store::NamedMetric& m : store::summarise(spec_, *totals)) {
    text += (text.empty() ? ": " : ", ") + m.name + " " + std::to_string(m.value);
    view.metrics.push_back({m.name, m.value});
  }
  return what + text;
}

std::vector<EvaluationView> EvaluationViews::all() const {
  std::vector<EvaluationView> all;
  for (const auto& [version, evaluation] : views_) all.push_back(evaluation);
  return all;
}

}  // namespace es::actors

#include "actors/service/answers/job_answers.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "actors/views/json_text.h"
#include "actors/views/render_json.h"
#include "actors/views/render_text.h"

namespace es::actors::http {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_nothing(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json summary(const JobView& job) {
  return {
      {"job", job.id},
      {"name", job.name},
      {"state", job.state},
      {"tenant", text_or_nothing(job.tenant)},
      {"level", job.level},
      {"max_p", job.max_p},
      {"steps", job.step},
      {"steps_total", job.last_step},
      {"placement", text_or_nothing(job.placement)},
      {"loss_last", job.loss_last},
      {"samples_per_s", job.samples_per_second_now > 0 ? Json(job.samples_per_second_now) : Json()},
      {"seconds_left", seconds_left(job) ? Json(*seconds_left(job)) : Json()},
      {"submitter", text_or_nothing(job.submitter)},
      {"submitted_unix_ms", job.submitted_unix_ms},
      {"ended_unix_ms", job.ended_unix_ms == 0 ? Json() : Json(job.ended_unix_ms)},
      {"waiting_for", text_or_nothing(job.waiting_for)},
      {"warning", text_or_nothing(job.warning)},
      {"error", text_or_nothing(job.error)},
      {"spent", job.spent},
      {"price_per_hour", job.price_per_hour},
      {"budget", job.budget > 0 ? Json(job.budget) : Json()}};
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

}  // namespace

std::string job_list_json(const std::vector<JobView>& jobs, std::uint64_t total,
                          const std::string& warning) {
  Json list = Json::array();
  for (const JobView& job : jobs) list.push_back(summary(job));
  return json_text({{"jobs", list}, {"total", total}, {"warning", text_or_nothing(warning)}}, -1) +
         "\n";
}

std::string job_line_json(const JobView& job) {
  return json_text(Json::parse(job_json(job)), -1);
}

std::string curve_json(const Curve& curve) {
  Json points = Json::array();
  for (const CurvePoint& p : curve.points())
    points.push_back({p.version, number(p.least), number(p.mean), number(p.largest)});
  return json_text({{"steps_per_point", curve.steps_per_point()}, {"points", points}}, -1) + "\n";
}

std::string timeline_json(const JobView& job, const TimelineView& timeline) {
  Json spans = Json::array(), progress = Json::array(), pauses = Json::array();
  for (const auto& [seconds, steps] : timeline.progress) progress.push_back({seconds, steps});
  for (const SpanView& s : timeline.spans)
    spans.push_back({{"begin_seconds", s.begin_seconds},
                     {"seconds", s.seconds},
                     {"pause_seconds", s.pause_seconds},
                     {"cause", text_or_nothing(s.cause)},
                     {"first_step", s.first_step},
                     {"steps", s.steps},
                     {"devices", s.devices}});
  for (const PauseView& p : job.pauses)
    pauses.push_back({{"cause", p.cause}, {"count", p.count}, {"seconds", p.seconds}});
  return json_text({{"spans", spans},
                    {"progress", progress},
                    {"pauses", pauses},
                    {"recoveries", recoveries_of(job)},
                    {"repeated_steps", job.repeated_steps},
                    {"start_retries", job.start_retries},
                    {"checkpoints",
                     {{"written", job.checkpoints_written},
                      {"failed", job.checkpoints_failed},
                      {"seconds", job.checkpoint_seconds}}},
                    {"exchanged_bytes",
                     {{"message", job.message_bytes},
                      {"shared_memory", job.shared_memory_bytes},
                      {"gpu_channel", job.channel_bytes}}}},
                   -1) +
         "\n";
}

std::string ledger_part_json(const std::string& job, const std::string& spec_toml,
                             const std::string& from, const std::vector<LedgerEntry>& lines,
                             std::uint64_t next) {
  Json list = Json::array();
  for (const LedgerEntry& line : lines) {
    Json losses = Json::array();
    for (const float loss : line.losses) losses.push_back(number(loss));
    list.push_back({{"version", line.version},
                    {"losses", losses},
                    {"params", line.params},
                    {"state", text_or_nothing(line.state)}});
  }
  return json_text({{"job", job},
                    {"spec_toml", spec_toml},
                    {"from", text_or_nothing(from)},
                    {"lines", list},
                    {"next", next}},
                   -1) +
         "\n";
}

std::string cluster_json(const std::vector<UtilisationPoint>& utilisation,
                         const std::vector<JobView>& jobs) {
  Json points = Json::array(), stragglers = Json::array();
  for (const UtilisationPoint& p : utilisation) points.push_back({p.unix_ms, p.busy, p.devices});
  for (const JobView& job : jobs)
    for (const WorkerView& w : job.workers)
      if (w.slowness > 1)
        stragglers.push_back({{"job", job.id},
                              {"node", w.node},
                              {"device", w.device_type + "#" + std::to_string(w.device_index)},
                              {"slowness", w.slowness}});
  return json_text({{"utilisation", points}, {"stragglers", stragglers}}, -1) + "\n";
}

std::string node_history_json(const std::string& node,
                              const std::map<std::string, std::vector<DevicePoint>>& devices,
                              bool all) {
  const auto known = [all](const std::optional<double>& value) {
    return all && value ? Json(*value) : Json();
  };
  Json list = Json::array();
  for (const auto& [device, points] : devices) {
    Json rows = Json::array();
    for (const DevicePoint& p : points)
      rows.push_back(
          {p.unix_ms, p.held, known(p.computing), known(p.peak_rss_mib), known(p.sent_bytes_ps)});
    list.push_back({{"device", device}, {"points", rows}});
  }
  return json_text({{"node", node}, {"devices", list}}, -1) + "\n";
}

std::optional<double> computing_share(const JobView& job, const WorkerView& worker) {
  if (job.samples_per_second_now <= 0 || worker.samples_per_second <= 0 || job.max_p == 0)
    return {};
  const double ranks = worker.rank_end - worker.rank_begin;
  const double needed = job.samples_per_second_now * ranks / job.max_p;
  return std::min(1.0, needed / worker.samples_per_second);
}

std::string identity_json(const Identity& identity) {
  return json_text({{"name", identity.name},
                    {"role", role_name(identity.role)},
                    {"tenant", text_or_nothing(identity.tenant)}},
                   -1) +
         "\n";
}

}  // namespace es::actors::http

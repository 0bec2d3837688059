#include "actors/views/render_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "actors/base/log/line.h"
#include "actors/views/json_text.h"
#include "actors/views/render_text.h"

namespace es::actors {
namespace {

using Json = nlohmann::ordered_json;

Json stages_of(const JobView& job) {
  Json list = Json::array();
  for (const StageView& s : job.stages)
    list.push_back({{"placement", s.placement},
                    {"steps", s.steps},
                    {"seconds", s.seconds},
                    {"rescale_seconds", s.rescale_seconds}});
  return list;
}

// "mean loss" becomes "mean_loss".
std::string metric_key(const MetricView& metric) {
  std::string key = metric_name(metric);
  std::replace(key.begin(), key.end(), ' ', '_');
  return key;
}

// One key for each metric; "metric" names the main one. A metric that is not defined is null. If
// the evaluation is not finite, all are, and a field reports it.
Json evaluation(const EvaluationView& e) {
  Json json{{"version", e.version}, {"total", e.total}};
  if (!e.metrics.empty()) json["metric"] = metric_key(e.metrics.front());
  for (const MetricView& m : e.metrics) json[metric_key(m)] = m.value;
  const bool finite =
      std::ranges::any_of(e.metrics, [](const MetricView& m) { return std::isfinite(m.value); });
  if (!e.metrics.empty() && !finite) json["not_finite"] = true;
  return json;
}

Json evaluations_of(const JobView& job) {
  Json list = Json::array();
  for (const EvaluationView& e : job.evaluations) list.push_back(evaluation(e));
  return list;
}

// For a measured value, for which 0 means that it is not known yet.
Json positive_or_null(double value) {
  return value > 0 ? Json(value) : Json();
}

Json workers_of(const JobView& job) {
  Json list = Json::array();
  for (const WorkerView& w : job.workers)
    list.push_back({{"incarnation", w.incarnation},
                    {"node", w.node},
                    {"device", w.device_type + "#" + std::to_string(w.device_index)},
                    {"rank_begin", w.rank_begin},
                    {"rank_end", w.rank_end},
                    {"pid", w.pid},
                    {"local_step_seconds", positive_or_null(w.local_step_seconds)},
                    {"samples_per_second", positive_or_null(w.samples_per_second)},
                    {"slowness", w.slowness},
                    {"est_seconds", w.est_seconds},
                    {"peak_rss_mib", positive_or_null(w.peak_rss_mib)},
                    {"sent_bytes", w.sent_bytes}});
  return list;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json version_or_null(std::uint64_t version) {
  return version == 0 ? Json() : Json(version);
}

Json decisions_of(const JobView& job) {
  const DecisionsView& d = job.decisions;
  if (!d.any()) return {};
  Json best;
  if (d.best_version != 0)
    best = {{"metric", d.best_metric},
            {"value", d.best_value},
            {"version", d.best_version},
            {"checkpoint", text_or_null(d.best_checkpoint)}};
  return {{"best", best},
          {"reductions", d.reductions},
          {"reduced_at", version_or_null(d.reduced_at)},
          {"stopped_at", version_or_null(d.stopped_at)}};
}

Json job_object(const JobView& job) {
  Json json;
  json["job"] = job.id;
  json["name"] = job.name;
  json["state"] = job.state;
  json["level"] = job.level;
  json["tenant"] = text_or_null(job.tenant);
  json["submitter"] = text_or_null(job.submitter);
  json["max_p"] = job.max_p;
  json["steps"] = job.step;
  json["steps_total"] = job.last_step;
  json["placement"] = text_or_null(job.placement);
  json["loss_first"] = job.loss_first;
  json["loss_last"] = job.loss_last;
  json["samples_per_s"] = positive_or_null(job.samples_per_second_now);
  json["samples_per_s_mean"] = positive_or_null(job.samples_per_second_mean);
  json["peak_rss_mib"] = job.peak_rss_mib;
  json["context_switch_share"] = job.context_switch_share;
  json["data_wait_share"] = job.data_wait_share;
  json["params_digest"] = text_or_null(job.params_digest);
  json["state_digest"] = text_or_null(job.state_digest);
  json["stages"] = stages_of(job);
  json["eval"] = job.evaluations.empty() ? Json() : evaluation(job.evaluations.back());
  json["evaluations"] = evaluations_of(job);
  json["workers"] = workers_of(job);
  json["checkpoint"] = text_or_null(job.checkpoint);
  json["decisions"] = decisions_of(job);
  json["warning"] = text_or_null(job.warning);
  json["submitted_unix_ms"] = job.submitted_unix_ms;
  json["ended_unix_ms"] = job.ended_unix_ms == 0 ? Json() : Json(job.ended_unix_ms);
  json["error"] = text_or_null(job.error);
  json["waiting_for"] = text_or_null(job.waiting_for);
  json["devices_wanted"] = job.devices_wanted;
  json["spent"] = job.spent;
  json["price_per_hour"] = job.price_per_hour;
  json["budget"] = positive_or_null(job.budget);
  return json;
}

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kFailure:
      return "failure";
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kNotFound:
      return "not_found";
    case ErrorKind::kRefused:
      return "refused";
  }
  return "failure";
}

}  // namespace

std::string job_json(const JobView& job) {
  return json_text(job_object(job));
}

std::string run_json(const JobView& job, const std::optional<KeptWeights>& weights) {
  Json json = job_object(job);
  json["weights"] = weights ? Json{{"path", weights->path}, {"step", weights->step}} : Json();
  return json_text(json);
}

std::string evaluation_json(const EvaluationView& e) {
  return json_text(evaluation(e));
}

std::string details_json(const JobView& job, const std::string& spec_toml) {
  Json json = job_object(job);
  json["spec_toml"] = spec_toml;
  return json_text(json);
}

std::string jobs_json(const std::vector<JobView>& jobs, const std::string& warning) {
  Json list = Json::array();
  for (const JobView& job : jobs) {
    list.push_back(job_object(job));
    list.back().erase("evaluations");
  }
  return json_text({{"jobs", list}, {"warning", text_or_null(warning)}});
}

std::string removed_json(const std::vector<std::string>& jobs) {
  return json_text({{"removed", jobs}});
}

std::string nodes_json(const std::vector<NodeView>& nodes, const std::string& warning) {
  Json list = Json::array();
  for (const NodeView& node : nodes) {
    Json devices = Json::array();
    for (const DeviceView& d : node.devices)
      devices.push_back({{"type", d.type},
                         {"index", d.index},
                         {"job", text_or_null(d.job)},
                         {"suspect", text_or_null(d.suspect)},
                         {"suspect_until", text_or_null(suspect_until_text(d))}});
    list.push_back({{"name", node.name},
                    {"alive", node.alive},
                    {"draining", node.draining},
                    {"checkpoints", text_or_null(node.checkpoints)},
                    {"checkpoint_problem", text_or_null(node.checkpoint_problem)},
                    {"rack", text_or_null(node.rack)},
                    {"island_devices", node.island_devices},
                    {"spot", node.spot},
                    {"gone", text_or_null(gone_text(node))},
                    {"cut_from", node.cut_from},
                    {"devices", devices}});
  }
  return json_text({{"nodes", list}, {"warning", text_or_null(warning)}});
}

std::string checkpoint_json(const std::string& job, const CheckpointView& checkpoint) {
  return json_text({{"job", job},
                    {"path", checkpoint.path},
                    {"version", checkpoint.version},
                    {"params_digest", checkpoint.params_digest},
                    {"state_digest", checkpoint.state_digest}});
}

std::string log_line_json(const std::string& line) {
  const log::JobLine parts = log::parse_job_line(line);
  return json_text({{"ts", parts.time ? Json(log::time_text(*parts.time)) : Json()},
                    {"level", std::string(log::level_name(parts.level))},
                    {"line", parts.message}},
                   -1);
}

std::string error_json(const Error& error) {
  return json_text({{"error", error.message}, {"kind", kind_name(error.kind)}});
}

std::string fields_json(const std::vector<std::pair<std::string, AnswerValue>>& fields) {
  Json json = Json::object();
  for (const auto& [name, value] : fields)
    std::visit([&json, &key = name](const auto& held) { json[key] = held; }, value);
  return json_text(json);
}

}  // namespace es::actors

#include "actors/service/answers/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <sstream>
#include <utility>

#include "actors/base/protocol/core/turn_text.h"
#include "actors/views/job_selection.h"
#include "proto/base/device.h"

namespace es::actors::http {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Families {
 public:
  void begin(const char* name, MetricType type, const char* help) {
    families_.push_back({name, help, type, {}});
  }
  void add(double value, Labels labels = {}) {
    MetricFamily& family = families_.back();
    ClientMetric metric;
    metric.label = std::move(labels);
    if (family.type == MetricType::Counter)
      metric.counter.value = value;
    else
      metric.gauge.value = value;
    family.metric.push_back(std::move(metric));
  }
  // `counts` are those of the ranges between the bounds, and one more.
  void add_histogram(std::span<const double> bounds, const std::vector<std::uint64_t>& counts,
                     double sum, Labels labels) {
    ClientMetric metric;
    metric.label = std::move(labels);
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      all += counts[i];
      const double bound = i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back({all, bound});
    }
    metric.histogram.sample_count = all;
    metric.histogram.sample_sum = sum;
    families_.back().metric.push_back(std::move(metric));
  }
  // Families without a series are left out.
  MetricFamilies take() {
    std::erase_if(families_, [](const MetricFamily& f) { return f.metric.empty(); });
    return std::move(families_);
  }

 private:
  std::vector<MetricFamily> families_;
};

Labels labels_of(const JobView& job) {
  return {{"job_id", job.id}, {"tenant", job.tenant}};
}

void add_jobs_by_state(std::map<std::string, std::uint64_t> count, Families& out) {
  out.begin("easyscale_jobs", MetricType::Gauge, "Jobs by state, those that are over included.");
  for (const char* state : job_states()) count.try_emplace(state, 0);
  for (const auto& [state, n] : count) out.add(double(n), {{"state", state}});
}

// Jobs that wait for their first device, or for the next one after they gave up all of theirs.
void add_queue(const Snapshot& snapshot, Families& out) {
  double waiting = 0, beside_free = 0, oldest_ms = 0;
  for (const JobView& job : snapshot.jobs) {
    if (job.state != "queued") continue;
    ++waiting;
    beside_free += job.waiting_for.starts_with(kTurn) ? 1 : 0;
    if (snapshot.unix_ms > job.submitted_unix_ms)
      oldest_ms = std::max(oldest_ms, double(snapshot.unix_ms - job.submitted_unix_ms));
  }
  out.begin("easyscale_queue_jobs", MetricType::Gauge, "Jobs that wait for devices.");
  out.add(waiting);
  out.begin("easyscale_queue_jobs_beside_free_devices", MetricType::Gauge,
            "Those of them for which free devices suffice.");
  out.add(beside_free);
  out.begin("easyscale_queue_oldest_job_age_seconds", MetricType::Gauge,
            "Time since the submission of the oldest job that waits for devices; 0 without one.");
  out.add(oldest_ms / 1e3);
}

// One family with a value of each live job.
template <class Value>
void add_for_each(const std::vector<JobView>& jobs, Families& out, const char* name,
                  MetricType type, const char* help, Value&& value) {
  out.begin(name, type, help);
  for (const JobView& job : jobs) out.add(value(job), labels_of(job));
}

double sum_of_stages(const JobView& job, double StageView::*value) {
  return std::accumulate(job.stages.begin(), job.stages.end(), 0.0,
                         [&](double sum, const StageView& s) { return sum + s.*value; });
}

// The mean rate is that of whole steps, so the samples of a step follow from it. After a restart of
// the head there is no rate until the next step, and then no series.
void add_samples(const std::vector<JobView>& jobs, Families& out) {
  out.begin("easyscale_job_samples_total", MetricType::Counter,
            "Samples of the committed global steps.");
  for (const JobView& job : jobs) {
    const double seconds = sum_of_stages(job, &StageView::seconds);
    const double steps =
        std::accumulate(job.stages.begin(), job.stages.end(), 0.0,
                        [](double sum, const StageView& s) { return sum + double(s.steps); });
    if (job.step > 0 && (steps == 0 || job.samples_per_second_mean <= 0)) continue;
    const double of_step =
        job.step > 0 ? std::round(job.samples_per_second_mean * seconds / steps) : 0;
    out.add(double(job.step) * of_step, labels_of(job));
  }
}

double changes_of(const JobView& job) {
  return job.stages.empty() ? 0.0 : double(job.stages.size() - 1);
}

// A label and the value of its series.
using Labelled = std::pair<const char*, double>;

// One family with several values of each live job, which differ in one label.
template <class Values>
void add_by_label(const std::vector<JobView>& jobs, Families& out, const char* name,
                  const char* label, const char* help, Values&& values) {
  out.begin(name, MetricType::Counter, help);
  for (const JobView& job : jobs)
    for (const auto& [of, value] : values(job)) {
      Labels labels = labels_of(job);
      labels.push_back({label, of});
      out.add(value, std::move(labels));
    }
}

// What has happened to a job since this head has it.
void add_job_history(const std::vector<JobView>& jobs, Families& out) {
  constexpr MetricType kCounter = MetricType::Counter;
  constexpr auto kOfPauses = [](double (*value)(const PauseView&)) {
    return [value](const JobView& job) {
      std::vector<Labelled> values;
      for (const PauseView& pause : job.pauses)
        values.emplace_back(pause.cause.c_str(), value(pause));
      return values;
    };
  };
  add_by_label(jobs, out, "easyscale_job_pauses_total", "cause", "Pauses that have ended.",
               kOfPauses([](const PauseView& p) { return double(p.count); }));
  add_by_label(jobs, out, "easyscale_job_pause_seconds_total", "cause", "Time of these pauses.",
               kOfPauses([](const PauseView& p) { return p.seconds; }));
  add_for_each(jobs, out, "easyscale_job_recoveries_total", kCounter,
               "Pauses after which the job continued although a worker, a link or a device failed.",
               [](const JobView& j) { return double(recoveries_of(j)); });
  add_by_label(jobs, out, "easyscale_job_retries_total", "what",
               "Global steps computed again, and worker processes started again.",
               [](const JobView& j) {
                 return std::vector<Labelled>{{"step", double(j.repeated_steps)},
                                              {"worker_start", double(j.start_retries)}};
               });
  add_by_label(jobs, out, "easyscale_job_exchanged_bytes_total", "path",
               "Gradients, sums and versions that workers have sent to each other.",
               [](const JobView& j) {
                 return std::vector<Labelled>{{"message", double(j.message_bytes)},
                                              {"shared_memory", double(j.shared_memory_bytes)},
                                              {"gpu_channel", double(j.channel_bytes)}};
               });
  add_for_each(jobs, out, "easyscale_job_checkpoints_total", kCounter, "Checkpoints written.",
               [](const JobView& j) { return double(j.checkpoints_written); });
  add_for_each(jobs, out, "easyscale_job_checkpoint_seconds_total", kCounter,
               "Time that the writers of these checkpoints needed.",
               [](const JobView& j) { return j.checkpoint_seconds; });
  add_for_each(jobs, out, "easyscale_job_checkpoint_failures_total", kCounter,
               "Checkpoints that could not be written.",
               [](const JobView& j) { return double(j.checkpoints_failed); });
}

void add_live_jobs(const std::vector<JobView>& jobs, Families& out) {
  constexpr MetricType kGauge = MetricType::Gauge, kCounter = MetricType::Counter;
  add_for_each(jobs, out, "easyscale_job_steps_total", kCounter, "Committed global steps.",
               [](const JobView& j) { return double(j.step); });
  add_samples(jobs, out);
  add_for_each(jobs, out, "easyscale_job_planned_steps", kGauge, "Global steps of the whole job.",
               [](const JobView& j) { return double(j.last_step); });
  add_for_each(jobs, out, "easyscale_job_loss", kGauge,
               "Mean loss over the ESTs at the last committed step.",
               [](const JobView& j) { return double(j.loss_last); });
  add_for_each(jobs, out, "easyscale_job_samples_per_second", kGauge,
               "Current training rate; 0 while the job does not train.",
               [](const JobView& j) { return j.samples_per_second_now; });
  add_for_each(jobs, out, "easyscale_job_training_seconds_total", kCounter,
               "Time in which the job trained.",
               [](const JobView& j) { return sum_of_stages(j, &StageView::seconds); });
  add_for_each(jobs, out, "easyscale_job_rescale_seconds_total", kCounter,
               "Time in which the job paused for changes of its devices.",
               [](const JobView& j) { return sum_of_stages(j, &StageView::rescale_seconds); });
  add_for_each(jobs, out, "easyscale_job_rescales_total", kCounter, "Changes of the devices.",
               changes_of);
  add_for_each(jobs, out, "easyscale_job_spent_total", kCounter,
               "What the devices of the job have cost, in the unit of the prices of the head.",
               [](const JobView& j) { return j.spent; });
  add_for_each(jobs, out, "easyscale_job_price_per_hour", kGauge,
               "What the devices that the job holds cost in an hour.",
               [](const JobView& j) { return j.price_per_hour; });
  add_for_each(jobs, out, "easyscale_job_budget", kGauge,
               "The most that the job may spend; 0 for no budget.",
               [](const JobView& j) { return j.budget; });
  add_for_each(jobs, out, "easyscale_job_workers", kGauge, "Worker processes.",
               [](const JobView& j) { return double(j.workers.size()); });
  add_for_each(jobs, out, "easyscale_job_peak_resident_memory_bytes", kGauge,
               "Largest resident set of any worker of the job.",
               [](const JobView& j) { return j.peak_rss_mib * 1024 * 1024; });
  add_for_each(jobs, out, "easyscale_job_data_wait_ratio", kGauge,
               "Share of the time for local steps in which no mini-batch was ready.",
               [](const JobView& j) { return j.data_wait_share; });
  out.begin("easyscale_job_step_duration_seconds", MetricType::Histogram,
            "Time of a global step, from the one before or the begin of training.");
  for (const JobView& job : jobs)
    if (!job.step_times.counts.empty())
      out.add_histogram(kStepTimeBounds, job.step_times.counts, job.step_times.seconds,
                        labels_of(job));
  add_job_history(jobs, out);
  out.begin("easyscale_job_evaluation", kGauge, "Metrics of the last evaluation.");
  for (const JobView& job : jobs) {
    if (job.evaluations.empty()) continue;
    for (const MetricView& m : job.evaluations.back().metrics) {
      Labels labels = labels_of(job);
      labels.push_back({"metric", m.name});
      out.add(m.value, labels);
    }
  }
}

const char* state_of(const NodeView& node, const DeviceView& device) {
  if (!node.alive) return "lost";
  // A device that a job still uses is not out of use yet.
  if (device.suspect_until_unix_ms != 0 && device.job.empty()) return "aside";
  if (!device.suspect.empty() && device.suspect_until_unix_ms == 0) return "suspect";
  return device.job.empty() ? "free" : "busy";
}

void add_cluster(const Snapshot& s, Families& out) {
  out.begin("easyscale_nodes", MetricType::Gauge, "Nodes by state.");
  std::map<std::string, int> nodes{{"alive", 0}, {"draining", 0}, {"lost", 0}};
  for (const NodeView& n : s.nodes) ++nodes[!n.alive ? "lost" : n.draining ? "draining" : "alive"];
  for (const auto& [state, n] : nodes) out.add(n, {{"state", state}});
  out.begin("easyscale_devices", MetricType::Gauge, "Devices by type and state.");
  std::map<std::pair<std::string, std::string>, int> devices;
  for (const NodeView& n : s.nodes)
    for (const DeviceView& d : n.devices) {
      for (const char* state : {"free", "busy", "suspect", "aside", "lost"})
        devices[{d.type, state}] += 0;
      ++devices[{d.type, state_of(n, d)}];
    }
  for (const auto& [key, n] : devices) out.add(n, {{"type", key.first}, {"state", key.second}});
  out.begin("easyscale_cut_nodes", MetricType::Gauge,
            "Nodes that are given to no job together with some other node.");
  out.add(static_cast<double>(
      std::ranges::count_if(s.nodes, [](const NodeView& n) { return !n.cut_from.empty(); })));
  out.begin("easyscale_claimed_devices", MetricType::Gauge, "Devices that a claim holds.");
  for (const ClaimView& c : s.claims) out.add(c.devices, {{"claim", c.name}, {"type", c.type}});
}

void add_head(const Snapshot& s, Families& out) {
  out.begin("easyscale_decision_duration_seconds", MetricType::Histogram,
            "Time that the scheduler needed for a decision.");
  if (!s.decisions.counts.empty())
    out.add_histogram(kDecisionTimeBounds, s.decisions.counts, s.decisions.seconds, {});
  out.begin("easyscale_head_faults", MetricType::Gauge,
            "1 while the head has a fault that `esctl ps` describes.");
  out.add(s.warning.empty() ? 0 : 1);
}

// What the gateway of the process has moved. Workers have gateways of their own.
void add_messages(const TransportStats& stats, Families& out) {
  constexpr MetricType kCounter = MetricType::Counter;
  out.begin("easyscale_messages_total", kCounter, "Messages of this process by direction.");
  out.add(double(stats.received), {{"direction", "received"}});
  out.add(double(stats.sent), {{"direction", "sent"}});
  out.begin("easyscale_message_bytes_total", kCounter, "Bodies of these messages in bytes.");
  out.add(double(stats.received_bytes), {{"direction", "received"}});
  out.add(double(stats.sent_bytes), {{"direction", "sent"}});
  out.begin("easyscale_message_queue_bytes", MetricType::Gauge,
            "Bodies that wait in this process to be sent.");
  out.add(double(stats.queued_bytes));
  out.begin("easyscale_messages_dropped_total", kCounter,
            "Messages to peers that were not connected.");
  out.add(double(stats.dropped_unreachable));
  out.begin("easyscale_connections_refused_total", kCounter,
            "Connections and messages of others that were refused, by cause.");
  out.add(double(stats.refused_malformed), {{"cause", "malformed"}});
  out.add(double(stats.refused_oversize), {{"cause", "oversize"}});
  out.add(double(stats.refused_stranger), {{"cause", "stranger"}});
  out.add(double(stats.refused_identity), {{"cause", "identity"}});
  out.add(double(stats.refused_key), {{"cause", "key"}});
  out.add(double(stats.refused_handshake), {{"cause", "handshake"}});
  out.add(double(stats.refused_unread), {{"cause", "unread"}});
}

void add_process(const ProcessFacts& process, const RequestCounts& requests, Families& out) {
  out.begin("easyscale_http_requests_total", MetricType::Counter,
            "Requests to the HTTP service by method and status.");
  for (const auto& [key, n] : requests)
    out.add(double(n), {{"method", key.first}, {"code", std::to_string(key.second)}});
  out.begin("easyscale_node_workers", MetricType::Gauge, "Worker processes on this node.");
  out.add(process.workers);
  out.begin("easyscale_node_workers_resident_memory_bytes", MetricType::Gauge,
            "Resident memory of these processes together in bytes.");
  out.add(process.workers_resident_bytes);
  add_messages(process.transport, out);
  out.begin("process_resident_memory_bytes", MetricType::Gauge, "Resident memory size in bytes.");
  out.add(process.resident_bytes);
  out.begin("process_cpu_seconds_total", MetricType::Counter, "Processor time in seconds.");
  out.add(process.cpu_seconds);
  out.begin("process_start_time_seconds", MetricType::Gauge, "Start of the process, unix time.");
  out.add(process.start_unix_seconds);
  out.begin("process_open_fds", MetricType::Gauge, "Number of open file descriptors.");
  out.add(process.open_files);
}

}  // namespace

MetricFamilies metrics_of(const Snapshot& snapshot) {
  Families families;
  add_jobs_by_state(snapshot.states, families);
  add_queue(snapshot, families);
  add_live_jobs(snapshot.jobs, families);
  add_cluster(snapshot, families);
  add_head(snapshot, families);
  add_process(snapshot.process, snapshot.requests, families);
  return families.take();
}

MetricFamilies node_metrics(const ProcessFacts& process, const RequestCounts& requests) {
  Families families;
  add_process(process, requests, families);
  return families.take();
}

std::string metrics_text(const MetricFamilies& families) {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return out.str();
}

bool accepts_openmetrics(std::string_view accept) {
  return accept.find("application/openmetrics-text") != std::string_view::npos;
}

// Its differences from the older format: the family of a counter is named without "_total", bounds
// of histograms are written as floating-point numbers, and the last line says that it is the last.
std::string openmetrics_text(const MetricFamilies& families) {
  constexpr std::string_view kTotal = "_total", kBound = ",le=\"", kOnlyBound = "{le=\"";
  std::istringstream lines(metrics_text(families));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const bool describes = line.starts_with("# HELP ") || line.starts_with("# TYPE ");
    const std::size_t name_end = describes ? line.find(' ', 7) : 0;
    if (describes && std::string_view(line).substr(0, name_end).ends_with(kTotal))
      line.erase(name_end - kTotal.size(), kTotal.size());
    // It is the last label of a bucket, and may be the only one.
    const std::size_t bound = std::min(line.rfind(kBound), line.rfind(kOnlyBound));
    if (!describes && bound != std::string::npos) {
      const std::size_t begin = bound + kBound.size(), end = line.find('"', begin);
      if (line.find_first_not_of("0123456789", begin) == end) line.insert(end, ".0");
    }
    text += line + "\n";
  }
  return text + "# EOF\n";
}

}  // namespace es::actors::http

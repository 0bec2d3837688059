#include "store/traces/job_trace.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "proto/base/job_spec.h"
#include "store/file_bytes.h"
#include "store/traces/csv_table.h"

namespace es::store {
namespace {

using Row = CsvTable::Row;

constexpr double kSecondsMax = 1e10;
constexpr double kWorkMax = 1e15;
constexpr std::uint32_t kMaxP = 1024;

// Takes the value of a Result, or returns its error from the enclosing function.
#define ES_TAKE(target, expression)   \
  do {                                \
    auto taken = (expression);        \
    if (!taken) return taken.error(); \
    (target) = *std::move(taken);     \
  } while (false)

Result<TraceJob> easyscale_job(const Row& row) {
  TraceJob job;
  ES_TAKE(job.id, row.required("job_id"));
  ES_TAKE(job.submit_s, row.number("submit_s", 0, kSecondsMax));
  ES_TAKE(job.model, row.required("model"));
  ES_TAKE(job.max_p, row.whole("max_p", 1, kMaxP));
  ES_TAKE(job.batch_size, row.whole("batch_size", 1, std::numeric_limits<std::uint32_t>::max()));
  double samples = 0;
  ES_TAKE(samples, row.number("samples_total", 1e-9, kWorkMax));
  // One local step is one mini-batch of one EST, so max_p is not in this formula.
  job.local_steps = samples / job.batch_size;
  std::uint32_t d2 = 1;
  ES_TAKE(d2, row.whole("d2", 0, 1));
  job.mix_types = d2 == 1;
  job.type = row.text("gpu_type");
  if (!job.mix_types && job.type.empty())
    return row.error("gpu_type", "a device type where d2 = 0");
  job.tenant = row.text("tenant");
  job.queue = row.text("queue");
  double priority = 0;
  ES_TAKE(priority, row.number("priority", -100, 100, 0));
  job.priority = static_cast<int>(priority);
  ES_TAKE(job.deadline_s, row.number("deadline_s", 0, kSecondsMax, 0));
  double suspendable = 1;
  ES_TAKE(suspendable, row.number("suspendable", 0, 1, 1));
  job.suspendable = suspendable != 0;
  double least = 1;
  ES_TAKE(least, row.number("min_devices", 1, job.max_p, 1));
  if (least != std::floor(least)) return row.error("min_devices", "a whole number");
  job.min_devices = static_cast<std::uint32_t>(least);
  ES_TAKE(job.max_s, row.number("max_s", 0, kSecondsMax, 0));
  ES_TAKE(job.budget, row.number("budget", 0, kBudgetMax, 0));
  return job;
}

// A row without devices or without a duration is a job that never ran, so there is nothing to
// schedule.
Result<std::vector<TraceJob>> philly_job(const Row& row) {
  TraceJob job;
  ES_TAKE(job.id, row.required("job_id"));
  ES_TAKE(job.submit_s, row.number("submit_s", 0, kSecondsMax));
  double gpus = 0, duration = 0;
  ES_TAKE(gpus, row.number("gpus", 0, kMaxP, 0));
  ES_TAKE(duration, row.number("duration_s", 0, kSecondsMax, 0));
  if (gpus < 1 || duration <= 0) return std::vector<TraceJob>();
  job.max_p = static_cast<std::uint32_t>(gpus);
  // The trace has no speeds. A job without a model computes one local step per second on each
  // device, so this number of local steps takes the recorded duration on the recorded devices.
  job.local_steps = duration * job.max_p;
  job.type = row.text("gpu_type");
  job.tenant = row.text("vc");
  return std::vector<TraceJob>{job};
}

Result<TraceJob> pollux_job(const Row& row) {
  TraceJob job;
  ES_TAKE(job.id, row.required("job_id"));
  ES_TAKE(job.submit_s, row.number("submit_s", 0, kSecondsMax));
  ES_TAKE(job.model, row.required("application"));
  ES_TAKE(job.max_p, row.whole("gpus", 1, kMaxP));
  std::uint32_t batch = 1;
  ES_TAKE(batch, row.whole("batch_size", 1, std::numeric_limits<std::uint32_t>::max()));
  // The trace gives the global batch; each EST computes an equal part of it.
  job.batch_size = std::max(1U, batch / job.max_p);
  return job;
}

// Gavel gives throughputs of a whole gang. A model is therefore a job type with a number of
// devices.
std::string gavel_model(const std::string& type, std::uint32_t gpus) {
  return type + " on " + std::to_string(gpus);
}

Result<TraceJob> gavel_job(const Row& row) {
  TraceJob job;
  ES_TAKE(job.id, row.required("job_id"));
  ES_TAKE(job.submit_s, row.number("submit_s", 0, kSecondsMax));
  ES_TAKE(job.max_p, row.whole("gpus", 1, kMaxP));
  std::string type;
  ES_TAKE(type, row.required("job_type"));
  job.model = gavel_model(type, job.max_p);
  double steps = 0, slo = -1;
  ES_TAKE(steps, row.number("total_steps", 1, kWorkMax));
  // A step of Gavel is a global step: one local step of each of the devices.
  job.local_steps = steps * job.max_p;
  double weight = 1;
  ES_TAKE(weight, row.number("priority_weight", 0, 100, 1));
  // The default weight 1 becomes the default priority 0.
  job.priority = static_cast<int>(weight) - 1;
  ES_TAKE(slo, row.number("slo", -1, kSecondsMax, -1));
  // -1 and 0 stand for a job without a deadline.
  if (slo > 0) job.deadline_s = slo;
  // Throughputs are known for gangs of one type only.
  job.mix_types = false;
  return job;
}

struct Format {
  TraceFormat format;
  std::vector<const char*> columns;  // columns by which the format is recognised
};

const std::vector<Format>& formats() {
  static const std::vector<Format> kFormats = {
      {TraceFormat::kEasyScale, {"job_id", "submit_s", "model", "max_p", "samples_total", "d2"}},
      {TraceFormat::kPhilly, {"job_id", "submit_s", "gpus", "duration_s"}},
      {TraceFormat::kPollux, {"workload", "job_id", "submit_s", "application", "gpus"}},
      {TraceFormat::kGavel, {"job_id", "submit_s", "gpus", "job_type", "total_steps"}}};
  return kFormats;
}

Result<TraceFormat> format_of(const CsvTable& table) {
  std::string known;
  for (const Format& format : formats()) {
    if (std::all_of(format.columns.begin(), format.columns.end(),
                    [&](const char* column) { return table.has(column); }))
      return format.format;
    std::string columns;
    for (const char* column : format.columns)
      columns += (columns.empty() ? "" : ",") + std::string(column);
    known += (known.empty() ? "" : "; ") + std::string(format_name(format.format)) + ": " + columns;
  }
  std::string columns;
  for (const std::string& column : table.columns())
    columns += (columns.empty() ? "" : ",") + column;
  return usage_error(table.file() + ": line 1: header \"" + columns + "\": allowed are " + known);
}

// The jobs of one row: one job or none.
Result<std::vector<TraceJob>> jobs_of(const Row& row, TraceFormat format) {
  const auto one = [](Result<TraceJob> job) -> Result<std::vector<TraceJob>> {
    if (!job) return job.error();
    return std::vector<TraceJob>{*std::move(job)};
  };
  switch (format) {
    case TraceFormat::kEasyScale:
      return one(easyscale_job(row));
    case TraceFormat::kPhilly:
      return philly_job(row);
    case TraceFormat::kPollux:
      return one(pollux_job(row));
    case TraceFormat::kGavel:
      return one(gavel_job(row));
  }
  return std::vector<TraceJob>();
}

Result<std::string> bytes_of(const std::string& file) {
  constexpr std::uint64_t kFileMax = std::uint64_t{1} << 30;
  return file_bytes(file, kFileMax);
}

Result<StepTimes> gavel_times(const CsvTable& table) {
  StepTimes times;
  const std::string suffix = "_steps_per_s";
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const Row row = table.row(i);
    std::string type;
    std::uint32_t gpus = 1;
    ES_TAKE(type, row.required("job_type"));
    ES_TAKE(gpus, row.whole("gpus", 1, kMaxP));
    for (const std::string& column : table.columns()) {
      if (!column.ends_with(suffix)) continue;
      double steps_per_s = 0;
      ES_TAKE(steps_per_s, row.number(column, 0, kWorkMax, 0));
      const std::string device = column.substr(0, column.size() - suffix.size());
      if (steps_per_s > 0) times.seconds[{gavel_model(type, gpus), device}] = 1 / steps_per_s;
    }
  }
  return times;
}

}  // namespace

const char* format_name(TraceFormat format) {
  switch (format) {
    case TraceFormat::kEasyScale:
      return "easyscale";
    case TraceFormat::kPhilly:
      return "philly";
    case TraceFormat::kPollux:
      return "pollux";
    case TraceFormat::kGavel:
      return "gavel";
  }
  return "?";
}

Result<JobTrace> parse_trace(std::string_view text, const std::string& file,
                             const std::string& workload) {
  const auto table = CsvTable::parse(text, file);
  if (!table) return table.error();
  JobTrace trace;
  ES_TAKE(trace.format, format_of(*table));
  std::string wanted = workload;
  std::set<std::string> ids;
  for (std::size_t i = 0; i < table->rows(); ++i) {
    const Row row = table->row(i);
    // Without a chosen workload the first row decides it.
    if (wanted.empty()) wanted = row.text("workload");
    if (row.text("workload") != wanted) continue;
    auto jobs = jobs_of(row, trace.format);
    if (!jobs) return jobs.error();
    if (jobs->empty()) ++trace.skipped;
    for (TraceJob& job : *jobs) {
      // Only jobs of the wanted workload are compared, because workloads may use the same ids.
      if (!ids.insert(job.id).second) return row.error("job_id", "an id that no row before has");
      trace.jobs.push_back(std::move(job));
    }
  }
  if (trace.jobs.empty())
    return usage_error(file + ": no job" + (workload.empty() ? "" : " of workload " + workload));
  // Rows with equal times keep the order of the file, which becomes the order of submission.
  std::stable_sort(trace.jobs.begin(), trace.jobs.end(),
                   [](const TraceJob& a, const TraceJob& b) { return a.submit_s < b.submit_s; });
  return trace;
}

Result<StepTimes> parse_step_times(std::string_view text, const std::string& file) {
  const auto table = CsvTable::parse(text, file);
  if (!table) return table.error();
  if (table->has("job_type")) return gavel_times(*table);
  for (const char* column : {"model", "gpu_type", "seconds_per_local_step"})
    if (!table->has(column))
      return usage_error(
          file + ": line 1: there is no column " + column +
          ": allowed are model,gpu_type,seconds_per_local_step"
          "[,seconds_per_sample][,samples_total]; job_type,gpus,TYPE_steps_per_s...");
  StepTimes times;
  for (std::size_t i = 0; i < table->rows(); ++i) {
    const Row row = table->row(i);
    std::string model, type;
    ES_TAKE(model, row.required("model"));
    ES_TAKE(type, row.required("gpu_type"));
    ES_TAKE((times.seconds[{model, type}]), row.number("seconds_per_local_step", 1e-9, 1e6));
    double per_sample = 0, samples = 0;
    ES_TAKE(per_sample, row.number("seconds_per_sample", 0, 1e6, 0));
    if (per_sample > 0) times.seconds_per_sample[{model, type}] = per_sample;
    ES_TAKE(samples, row.number("samples_total", 1e-9, kWorkMax, 0));
    if (samples > 0) times.samples_total[model] = samples;
  }
  return times;
}

std::optional<double> StepTimes::local_step_s(const std::string& model, const std::string& type,
                                              std::uint32_t batch_size) const {
  const auto fixed = seconds.find({model, type});
  if (fixed == seconds.end()) return std::nullopt;
  const auto per_sample = seconds_per_sample.find({model, type});
  if (per_sample == seconds_per_sample.end()) return fixed->second;
  return fixed->second + batch_size * per_sample->second;
}

std::string StepTimes::device_types_text() const {
  std::set<std::string> types;
  for (const auto& [model_and_type, time] : seconds) types.insert(model_and_type.second);
  std::string text;
  for (const std::string& type : types) text += (text.empty() ? "" : ", ") + type;
  return text;
}

Result<std::vector<TraceClaim>> parse_claims(std::string_view text, const std::string& file) {
  const auto table = CsvTable::parse(text, file);
  if (!table) return table.error();
  for (const char* column : {"time_s", "type", "count", "name"})
    if (!table->has(column))
      return usage_error(file + ": line 1: there is no column " + column +
                         ": allowed are time_s,type,count,name,until_s,queue");
  std::vector<TraceClaim> claims;
  for (std::size_t i = 0; i < table->rows(); ++i) {
    const Row row = table->row(i);
    TraceClaim claim;
    ES_TAKE(claim.time_s, row.number("time_s", 0, kSecondsMax));
    ES_TAKE(claim.type, row.required("type"));
    ES_TAKE(claim.name, row.required("name"));
    double count = 0;
    ES_TAKE(count, row.number("count", -1e9, 1e9));
    // A count of 0 or less releases the claim.
    claim.count = count > 0 ? static_cast<std::uint32_t>(count) : 0;
    ES_TAKE(claim.until_s, row.number("until_s", 0, kSecondsMax, 0));
    claim.queue = row.text("queue");
    if ((claim.until_s > 0) != !claim.queue.empty())
      return row.error("until_s", "a number above 0 together with a queue");
    if (claim.until_s > 0 && (claim.until_s <= claim.time_s || claim.count == 0))
      return row.error("until_s", "a number above time_s, for a count above 0");
    claims.push_back(std::move(claim));
  }
  std::stable_sort(claims.begin(), claims.end(),
                   [](const TraceClaim& a, const TraceClaim& b) { return a.time_s < b.time_s; });
  return claims;
}

Result<JobTrace> read_trace(const std::string& file, const std::string& workload) {
  const auto text = bytes_of(file);
  if (!text) return text.error();
  return parse_trace(*text, file, workload);
}

Result<StepTimes> read_step_times(const std::string& file) {
  const auto text = bytes_of(file);
  if (!text) return text.error();
  return parse_step_times(*text, file);
}

Result<std::vector<TraceClaim>> read_claims(const std::string& file) {
  const auto text = bytes_of(file);
  if (!text) return text.error();
  return parse_claims(*text, file);
}

#undef ES_TAKE

}  // namespace es::store

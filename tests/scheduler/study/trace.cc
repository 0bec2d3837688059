#include "tests/scheduler/study/trace.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "tests/support/places.h"
#include "tests/support/reference_data.h"

namespace es::study {
namespace {

using Fields = std::vector<std::string>;

// The rows of a CSV file after the header. Each row has as many fields as the header.
Result<std::vector<Fields>> read_rows(std::istream& in, const std::string& file) {
  std::vector<Fields> rows;
  std::string line;
  std::size_t width = 0;
  for (int number = 1; std::getline(in, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    Fields fields;
    std::stringstream stream(line);
    for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
    if (!line.empty() && line.back() == ',') fields.emplace_back();
    if (number == 1) {
      width = fields.size();
      continue;
    }
    if (fields.size() != width)
      return usage_error(file + ":" + std::to_string(number) + ": " +
                         std::to_string(fields.size()) +
                         " fields; allowed: " + std::to_string(width));
    rows.push_back(std::move(fields));
  }
  return rows;
}

Result<std::vector<Fields>> read_file(const std::string& name) {
  const std::string path = trace_folder() + "/" + name;
  std::ifstream in(path);
  if (!in) return not_found(path + " cannot be read");
  return read_rows(in, path);
}

double number(const std::string& text) {
  return std::strtod(text.c_str(), nullptr);
}

std::uint32_t count(const std::string& text) {
  return static_cast<std::uint32_t>(std::strtoul(text.c_str(), nullptr, 10));
}

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

void sort_by_submit(std::vector<Job>& jobs) {
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const Job& a, const Job& b) { return a.submit_s < b.submit_s; });
}

// Values that the Pollux files do not contain. For each application: the seconds of a local step
// without samples, the seconds for each sample, and the samples of the whole job.
struct Nominal {
  double base_s, sample_s, samples;
};

// The file configs/steptimes/pollux_nominal.csv, which `esctl sim` reads too.
Result<std::map<std::string, Nominal>> read_nominal() {
  const std::string path =
      (es::test::source_root() / "configs/steptimes/pollux_nominal.csv").string();
  std::ifstream in(path);
  if (!in) return not_found(path + " cannot be read");
  const auto rows = read_rows(in, path);
  if (!rows) return rows.error();
  std::map<std::string, Nominal> nominal;
  for (const Fields& f : *rows) nominal[f[0]] = {number(f[2]), number(f[3]), number(f[4])};
  return nominal;
}

Result<Job> pollux_job(const Fields& f, const std::map<std::string, Nominal>& all) {
  const auto nominal = all.find(f[3]);
  if (nominal == all.end()) return usage_error("unknown application " + f[3]);
  const auto& [base_s, sample_s, samples] = nominal->second;
  Job job;
  job.id = f[1];
  job.submit_s = number(f[2]);
  job.max_p = count(f[4]);
  const double batch = number(f[5]);
  const double step_s = base_s + sample_s * batch / job.max_p;
  job.steps = std::ceil(samples / batch) * job.max_p;
  job.capabilities[{"gpu"}] = 1 / step_s;
  return job;
}

}  // namespace

std::string trace_folder() {
  return test::reference_data("traces").string();
}

Result<Trace> read_sc23(bool elastic) {
  auto times_read = read_file("easyscale-sc23-steptimes.csv");
  if (!times_read) return times_read.error();
  auto& times = *times_read;
  auto rows_read = read_file("easyscale-sc23-jobs.csv");
  if (!rows_read) return rows_read.error();
  auto& rows = *rows_read;
  std::map<std::string, scheduler::Capabilities> speeds;
  for (const Fields& f : times) speeds[f[0]][{f[1]}] = 1 / number(f[2]);
  Trace trace{"sc23", devices("v100:32+p100:16+t4:16"), {}};
  for (const Fields& f : rows) {
    Job job;
    job.id = f[0];
    job.submit_s = number(f[1]);
    job.max_p = count(f[3]);
    job.steps = std::ceil(number(f[5]) / (number(f[4]) * job.max_p)) * job.max_p;
    job.mix_types = elastic && f[6] == "1";
    job.gang_type = {f[7]};
    job.capabilities = speeds[f[2]];
    if (!job.mix_types)
      std::erase_if(job.capabilities, [&](const auto& c) { return c.first.name != f[7]; });
    trace.jobs.push_back(std::move(job));
  }
  sort_by_submit(trace.jobs);
  return trace;
}

Result<Trace> read_files(const std::string& jobs, const std::string& step_times,
                         const std::string& cluster) {
  std::ifstream times_in(step_times), jobs_in(jobs);
  if (!times_in) return not_found(step_times + " cannot be read");
  if (!jobs_in) return not_found(jobs + " cannot be read");
  const auto times = read_rows(times_in, step_times);
  if (!times) return times.error();
  const auto rows = read_rows(jobs_in, jobs);
  if (!rows) return rows.error();
  const auto devices = parse_device_set(cluster);
  if (!devices) return devices.error();
  std::map<std::string, scheduler::Capabilities> speeds;
  for (const Fields& f : *times) speeds[f[0]][{f[1]}] = 1 / number(f[2]);
  Trace trace{jobs, *devices, {}};
  for (const Fields& f : *rows) {
    Job job;
    job.id = f[0];
    job.submit_s = number(f[1]);
    job.max_p = count(f[3]);
    job.steps = std::ceil(number(f[5]) / (number(f[4]) * job.max_p)) * job.max_p;
    job.mix_types = f[6] == "1";
    job.gang_type = {f[7]};
    job.capabilities = speeds[f[2]];
    if (!job.mix_types && !f[7].empty())
      std::erase_if(job.capabilities, [&](const auto& c) { return c.first.name != f[7]; });
    trace.jobs.push_back(std::move(job));
  }
  sort_by_submit(trace.jobs);
  return trace;
}

Result<Trace> read_pollux(int workload) {
  auto rows_read = read_file("pollux-osdi21-workloads.csv");
  if (!rows_read) return rows_read.error();
  auto& rows = *rows_read;
  const auto nominal = read_nominal();
  if (!nominal) return nominal.error();
  const std::string name = "workload-" + std::to_string(workload);
  Trace trace{"pollux-" + std::to_string(workload), devices("gpu:64"), {}};
  for (const Fields& f : rows) {
    if (f[0] != name) continue;
    auto job_read = pollux_job(f, *nominal);
    if (!job_read) return job_read.error();
    auto& job = *job_read;
    trace.jobs.push_back(std::move(job));
  }
  sort_by_submit(trace.jobs);
  return trace;
}

Result<Trace> read_gavel() {
  auto speeds_read = read_file("gavel-throughputs.csv");
  if (!speeds_read) return speeds_read.error();
  auto& speeds = *speeds_read;
  auto rows_read = read_file("gavel-physical-max_min_fairness.csv");
  if (!rows_read) return rows_read.error();
  auto& rows = *rows_read;
  std::map<std::pair<std::string, std::string>, scheduler::Capabilities> by_type;
  const char* const types[] = {"v100", "p100", "k80"};
  for (const Fields& f : speeds)
    for (int i = 0; i < 3; ++i)
      if (number(f[2 + i]) > 0) by_type[{f[0], f[1]}][{types[i]}] = number(f[2 + i]);
  Trace trace{"gavel", devices("v100:8+p100:16+k80:24"), {}};
  for (const Fields& f : rows) {
    Job job;
    job.id = "job-" + f[0];
    job.submit_s = number(f[1]);
    job.max_p = count(f[2]);
    job.steps = number(f[4]) * job.max_p;
    job.capabilities = by_type[{f[3], f[2]}];
    if (job.capabilities.empty()) return usage_error("no throughput for " + f[3] + " on " + f[2]);
    trace.jobs.push_back(std::move(job));
  }
  sort_by_submit(trace.jobs);
  return trace;
}

Result<Trace> read_philly(std::size_t most, std::uint32_t device_count) {
  const std::string path = trace_folder() + "/philly.csv.gz";
  if (!std::filesystem::exists(path)) return not_found(path + " cannot be read");
  std::FILE* pipe = popen(("gunzip -c " + path).c_str(), "r");
  if (pipe == nullptr) return failure("gunzip cannot be started");
  std::string text;
  char buffer[1 << 16];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  pclose(pipe);
  std::istringstream in(text);
  auto rows_read = read_rows(in, path);
  if (!rows_read) return rows_read.error();
  auto& rows = *rows_read;
  Trace trace{"philly", {}, {}};
  trace.cluster.add({"gpu"}, device_count);
  for (const Fields& f : rows) {
    if (trace.jobs.size() == most) break;
    Job job;
    job.id = "job-" + f[0];
    job.submit_s = number(f[1]);
    job.max_p = count(f[2]);
    job.steps = number(f[3]) * job.max_p;
    job.capabilities[{"gpu"}] = 1;
    job.tenant = f[6];
    if (job.max_p > 0 && job.steps > 0) trace.jobs.push_back(std::move(job));
  }
  sort_by_submit(trace.jobs);
  return trace;
}

Trace make_crowd(std::uint32_t device_count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](std::uint64_t low, std::uint64_t high) {
    return static_cast<double>(low + random() % (high - low + 1));
  };
  Trace trace{"crowd-" + std::to_string(device_count), {}, {}};
  const char* const types[] = {"p100", "t4", "v100"};
  for (int t = 0; t < 3; ++t) trace.cluster.add({types[t]}, device_count / 3);
  for (std::uint32_t j = 0; j < device_count * 11 / 10; ++j) {
    Job job;
    job.id = "job-" + std::to_string(j);
    job.submit_s = draw(0, 1000);
    job.max_p = random() % 4 == 0 ? static_cast<std::uint32_t>(draw(2, 4)) : 1;
    job.steps = draw(1000, 5000) * job.max_p;
    job.mix_types = job.max_p > 1 && random() % 2 == 0;
    for (int t = 0; t < 3; ++t) job.capabilities[{types[t]}] = draw(10, 12 + 6 * t) / 10;
    trace.jobs.push_back(std::move(job));
  }
  sort_by_submit(trace.jobs);
  return trace;
}

Trace make_queue(std::uint32_t job_count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Trace trace{"queue-" + std::to_string(job_count), devices("t4:500+v100:500"), {}};
  for (std::uint32_t j = 0; j < job_count; ++j) {
    Job job;
    job.id = "job-" + std::to_string(j);
    job.submit_s = static_cast<double>(random() % 60);
    job.max_p = 1 + static_cast<std::uint32_t>(random() % 4);
    job.steps = static_cast<double>(200 + random() % 1600) * job.max_p;
    job.mix_types = random() % 2 == 0;
    job.capabilities = {{{"t4"}, 1}, {{"v100"}, 2}};
    trace.jobs.push_back(std::move(job));
  }
  sort_by_submit(trace.jobs);
  return trace;
}

}  // namespace es::study

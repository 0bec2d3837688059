#pragma once
// The job traces of the shared data, as jobs of the throughput model.
//
// Every reader returns jobs in submit order, or an error that names the file and the line. Steps
// are local steps (one EST, one mini-batch), and speeds are local steps per second of one device.
#include <string>
#include <vector>

#include "proto/base/result.h"
#include "scheduler/policy/common/policy.h"

namespace es::study {

struct Job {
  JobId id;
  double submit_s = 0;
  std::uint32_t max_p = 1;  // Its gang.
  double steps = 0;
  scheduler::Capabilities capabilities;
  bool mix_types = false;
  DeviceType gang_type;
  std::string tenant;
  int priority = 0;
  double deadline_s = scheduler::kNever.count();
  std::uint32_t min_devices = 1;
};

struct Trace {
  std::string name;
  DeviceSet cluster;
  std::vector<Job> jobs;
};

// The folder with the traces: $ES_SHARED/traces, or ../shared/traces beside the repository.
std::string trace_folder();

// easyscale-sc23-jobs.csv with easyscale-sc23-steptimes.csv on 32 v100, 16 p100 and 16 t4. If
// `elastic` is false, each job runs on its gpu_type only.
Result<Trace> read_sc23(bool elastic);

// One of the eight workloads of pollux-osdi21-workloads.csv (1 to 8) on 64 GPUs of one type. The
// file names an application, its GPUs and its batch size. The length of a job comes from
// configs/steptimes/pollux_nominal.csv.
Result<Trace> read_pollux(int workload);

// gavel-physical-max_min_fairness.csv with gavel-throughputs.csv on 8 v100, 16 p100 and 24 k80.
Result<Trace> read_gavel();

// A trace in the format `easyscale` of esctl sim, with the seconds of a local step by model and
// type.
Result<Trace> read_files(const std::string& jobs, const std::string& step_times,
                         const std::string& cluster);

// The first `most` jobs of philly.csv.gz on `devices` devices of one type. The program gunzip must
// be installed.
Result<Trace> read_philly(std::size_t most, std::uint32_t devices);

// `devices` devices of three types, and jobs of 1 to 4 devices that arrive within 1,000 s and need
// 1,000 to 5,000 s. At the peak every device has a job of its own, and some jobs wait.
Trace make_crowd(std::uint32_t devices, std::uint64_t seed);

// 1,000 devices of two types, and jobs of 1 to 4 devices that arrive within a minute and need 100
// to 900 s, so that most of them wait.
Trace make_queue(std::uint32_t jobs, std::uint64_t seed);

}  // namespace es::study

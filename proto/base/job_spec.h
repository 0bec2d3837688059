#pragma once
// JobSpec: everything that decides a job's bits, and the resources that it may use (which do not).
//
// A plain value. Its file form is TOML (actors/config/job_file.h reads and writes it); the
// canonical TOML text of a spec travels in messages, in the journal and in checkpoints.
#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/digest.h"
#include "proto/base/result.h"

namespace es {

enum class DeterminismLevel { kD0, kD1, kD2 };
const char* level_name(DeterminismLevel level);
Result<DeterminismLevel> parse_level(std::string_view text);

struct ModelSpec {
  std::string name = "small_cnn";    // small_cnn | resnet18 | mlp
  std::uint32_t width = 0;           // base width; 0 = the model's published width
  std::uint32_t classes = 10;
  bool operator==(const ModelSpec&) const = default;
};

struct DataSpec {
  std::string kind = "synthetic";    // idx | synthetic
  std::string path;                  // idx: directory with the four IDX files (plain or .gz)
  std::uint32_t height = 28;         // synthetic: shape of one image
  std::uint32_t width = 28;
  std::uint32_t channels = 1;
  std::uint64_t samples = 4096;      // synthetic: training samples
  std::uint64_t eval_samples = 1024; // synthetic: evaluation samples
  std::uint32_t crop_padding = 0;    // random crop after zero padding by this many pixels; 0 = none
  bool flip = false;                 // random horizontal flip
  bool operator==(const DataSpec&) const = default;
};

struct OptimizerSpec {
  double learning_rate = 0.1;
  double momentum = 0.9;
  double weight_decay = 0.0;
  bool operator==(const OptimizerSpec&) const = default;
};

// Learning rate at global step t (0-based); all are evaluated in fp64 and rounded once to fp32.
//   constant  lr
//   step      lr * gamma^floor(t / step_size)
//   cosine    lr * (1 + cos(pi * t / total_steps)) / 2
// During the first warmup_steps steps the result is multiplied by (t + 1) / warmup_steps.
struct ScheduleSpec {
  std::string kind = "constant";     // constant | step | cosine
  std::uint64_t step_size = 0;
  double gamma = 0.1;
  std::uint64_t warmup_steps = 0;
  bool operator==(const ScheduleSpec&) const = default;
};

struct ResourceSpec {
  std::uint32_t min_devices = 1;
  std::uint32_t max_devices = 0;     // 0 = max_p
  std::vector<DeviceType> device_types;  // types that the scheduler may use; empty = all (D2) or one
  bool operator==(const ResourceSpec&) const = default;
};

struct JobSpec {
  std::string name = "job";
  std::uint32_t max_p = 4;           // number of ESTs, 1..1024
  std::uint32_t batch_size = 32;     // samples per EST and step
  std::uint64_t steps = 0;           // global steps; 0 = given by epochs
  std::uint64_t epochs = 0;          // used when steps = 0
  std::uint64_t seed = 1;
  DeterminismLevel level = DeterminismLevel::kD1;
  ModelSpec model;
  DataSpec data;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  std::uint64_t eval_every = 0;      // global steps between evaluations; 0 = only at the end
  ResourceSpec resources;
  std::vector<Stage> stages;         // fixed placements to go through; empty = the scheduler decides
  bool operator==(const JobSpec&) const = default;
};

// Checks every range and every relation between fields that needs no file and no machine.
// The error names the field, the value and what is allowed; `where` (e.g. the file) precedes it.
Status validate(const JobSpec& spec, const std::string& where);

}  // namespace es

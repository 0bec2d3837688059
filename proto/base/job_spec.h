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

// D0  same devices, same bits: gradients are summed per worker; vendor kernels
// D1  any number of devices of one type: canonical tree; vendor kernels where they are faster
// D2  any mix of device types: canonical tree and canonical kernels
// auto  D2 when it costs at most auto_cost over D1, measured where the job is admitted; else D1
enum class DeterminismLevel { kD0, kD1, kD2, kAuto };
const char* level_name(DeterminismLevel level);
Result<DeterminismLevel> parse_level(std::string_view text);

// What a model learns; it decides the fields of a sample (sample_layout.h), the kinds of data and
// the metrics.
enum class Task { kClassification, kRecommendation, kQuestionAnswering, kDetection };
const char* task_name(Task task);  // "classification", "question answering"

struct ModelSpec {
  // A name of gpu/models/models.h: small_cnn, mlp, neumf, yolov3, and those of the families ResNet,
  // ShuffleNetV2, VGG, Swin, BERT and ELECTRA, whose variants have names of their own.
  std::string name = "small_cnn";
  // published | tiny: tiny is the same architecture, small enough for tests.
  std::string size = "published";
  std::uint32_t width = 0;     // base width; 0 = the size's own (small_cnn, resnet18, mlp)
  std::uint32_t classes = 10;  // classification and detection
  double dropout = -1.0;       // probability in [0, 1); -1 = the published one
  // A safetensors file with the parameters and statistics of version 0, instead of the seed's;
  // empty = none. Its digest (32 hexadecimal digits) is what decides the bits; empty = not known
  // yet: the head fills it in when the job is admitted.
  std::string weights;
  std::string weights_digest;
  bool operator==(const ModelSpec&) const = default;
};

// REQUIRES: a valid model name; of others it is classification.
Task task_of(const ModelSpec& model);

struct DataSpec {
  // idx | cifar10 | image_folder | ratings | squad | voc | synthetic (of the model's task)
  std::string kind = "synthetic";
  std::string path;  // file or directory; every kind but synthetic
  // Shape of one image. synthetic: as made; image_folder, voc: as resized.
  std::uint32_t height = 28;
  std::uint32_t width = 28;
  std::uint32_t channels = 1;
  std::uint64_t samples = 4096;       // synthetic: training samples
  std::uint64_t eval_samples = 1024;  // synthetic: evaluation samples
  std::string normalise = "half";     // half: (x-0.5)/0.5 | imagenet: that set's mean and deviation
  std::uint32_t crop_padding = 0;    // random crop after zero padding by this many pixels; 0 = none
  bool flip = false;                 // random horizontal flip
  bool random_resized_crop = false;  // image_folder: area 0.08..1, aspect 3/4..4/3
  std::uint32_t users = 943;         // synthetic ratings
  std::uint32_t items = 1682;        // synthetic ratings
  std::uint32_t negatives = 4;  // ratings: sampled items that the user has not rated, per rating
  std::uint32_t tokens = 64;    // question answering: length of a sequence
  std::uint32_t vocabulary = 1000;  // synthetic question answering
  std::string vocabulary_file;      // squad: WordPiece vocabulary, one token per line
  std::uint32_t boxes = 20;         // detection: most boxes of one image
  bool operator==(const DataSpec&) const = default;
};

struct OptimizerSpec {
  std::string kind = "sgd";  // sgd | adam | adamw
  double learning_rate = 0.1;
  double momentum = 0.9;  // sgd
  bool nesterov = false;  // sgd
  double beta1 = 0.9;     // adam, adamw
  double beta2 = 0.999;   // adam, adamw
  double epsilon = 1e-8;  // adam, adamw
  double weight_decay = 0.0;
  double clip_norm = 0.0;  // largest norm of the whole gradient; 0 = no clipping
  bool operator==(const OptimizerSpec&) const = default;
};

// Learning rate at global step t (0-based); all are evaluated in fp64 and rounded once to fp32.
//   constant  lr
//   step      lr * gamma^floor(t / step_size)
//   cosine    lr * (1 + cos(pi * u)) / 2    u = t / total_steps
//   linear    lr * (1 - u)                  u = max(0, t - warmup_steps) /
//                                             (total_steps - warmup_steps)
// During the first warmup_steps steps the result is multiplied by (t + 1) / warmup_steps.
struct ScheduleSpec {
  std::string kind = "constant";  // constant | step | cosine | linear
  std::uint64_t step_size = 0;
  double gamma = 0.1;
  std::uint64_t warmup_steps = 0;
  bool operator==(const ScheduleSpec&) const = default;
};

struct ResourceSpec {
  std::uint32_t min_devices = 1;
  std::uint32_t max_devices = 0;  // 0 = max_p
  std::uint32_t threads = 1;      // compute threads per CPU device; bits do not depend on it
  // Types that the scheduler may use; empty = all (D2) or one. The first is the one that policies
  // which do not scale give.
  std::vector<DeviceType> device_types;
  std::string tenant;           // whose quota it uses; empty = nobody's
  int priority = 0;             // -100..100, higher is served first
  double deadline_seconds = 0;  // from its submission on it should take at most this; 0 = none
  bool operator==(const ResourceSpec&) const = default;
};

// Checkpoints that a job writes by itself while it trains, to DIRECTORY/JOB/step-N.
struct CheckpointSpec {
  std::uint64_t every_steps = 0;  // global steps between two, and one at the end; 0 = none
  std::string directory;          // of all jobs that name it; every node must reach it
  std::uint32_t keep = 3;         // newest ones that stay, 2..1000
  bool operator==(const CheckpointSpec&) const = default;
};

struct AuditSpec {
  std::uint64_t every_steps = 0;  // a second device computes one EST of each such step; 0 = none
  bool operator==(const AuditSpec&) const = default;
};

struct JobSpec {
  std::string name = "job";
  std::uint32_t max_p = 4;        // number of ESTs, 1..1024
  std::uint32_t batch_size = 32;  // samples per EST and step
  std::uint64_t steps = 0;        // global steps; 0 = given by epochs
  std::uint64_t epochs = 0;       // used when steps = 0
  std::uint64_t seed = 1;
  DeterminismLevel level = DeterminismLevel::kD1;
  double auto_cost = 0.1;  // level auto: accepted cost of D2, 0.1 = 10 % of a step
  bool tf32 = false;       // D0 and D1: cuBLAS and cuDNN may round factors to TF32; CPUs do not
  ModelSpec model;
  DataSpec data;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  std::uint64_t eval_every = 0;  // global steps between evaluations; 0 = only at the end
  ResourceSpec resources;
  CheckpointSpec checkpoint;
  AuditSpec audit;
  std::vector<Stage> stages;  // fixed placements to go through; empty = the scheduler decides
  bool operator==(const JobSpec&) const = default;
};

// Checks every range and every relation between fields that needs no file and no machine.
// The error names the field, the value and what is allowed; `where` (e.g. the file) precedes it.
Status validate(const JobSpec& spec, const std::string& where);

}  // namespace es

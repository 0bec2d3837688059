#pragma once
// JobSpec contains everything that decides the bits of a job, and the resources that the job may
// use, which do not decide them.
//
// A plain value. Its file form is TOML (actors/base/job_file/job_file.h reads and writes it). The
// canonical TOML text of a spec is what messages, the journal and checkpoints contain.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/digest.h"
#include "proto/base/result.h"
#include "proto/base/schedule_points.h"

namespace es {

// Which sets of devices give the same bits (docs/ARITHMETIC.md):
//   D0    the same devices: each worker sums its gradients in a chain; vendor kernels are used
//   D1    any number of devices of one type: canonical tree; vendor kernels where they are faster
//   D2    any mix of device types: canonical tree and canonical kernels only
//   auto  D2 if it costs at most auto_cost more than D1, otherwise D1. esctl measures both before
//         it submits the job; a head that receives `auto` uses D2.
enum class DeterminismLevel { kD0, kD1, kD2, kAuto };
const char* level_name(DeterminismLevel level);
Result<DeterminismLevel> parse_level(std::string_view text);

// What a model learns. The task decides the fields of a sample (sample_layout.h), the possible
// kinds of data, and the metrics.
// kCaptured: a model file (ModelSpec::file) says itself what it learns; the fields of its samples
// are its inputs.
enum class Task {
  kClassification,
  kRecommendation,
  kQuestionAnswering,
  kDetection,
  kLanguage,
  kCaptured
};
const char* task_name(Task task);  // "classification", "question answering"

struct ModelSpec {
  // A model file (store/model_file/model_file.h), which describes the whole model; empty for a
  // built-in one. With a file, name, size, width, classes and dropout have no meaning and keep
  // their defaults. The digest of the program in the file (32 hexadecimal digits) decides the bits.
  // If the digest is empty, the head fills it in when it admits the job.
  std::string file;
  std::string file_digest;
  // A name from gpu/models/models.h: small_cnn, mlp, neumf, yolov3, or a variant of the families
  // ResNet, ShuffleNetV2, VGG, Swin, BERT, ELECTRA, GPT-2 and Llama.
  std::string name = "small_cnn";
  // published | tiny. tiny is the same architecture, small enough for tests.
  std::string size = "published";
  std::uint32_t width = 0;     // base width (small_cnn, resnet18, mlp); 0 for the width of the size
  std::uint32_t classes = 10;  // number of classes, for classification and detection
  double dropout = -1.0;       // probability in [0, 1), or -1 for the published one
  // Language models only: the share of the cross entropy that all classes have together, and the
  // factor of the square of the logarithm of the softmax's divisor; 0 for none.
  double label_smoothing = 0.0;
  double z_loss = 0.0;
  // A safetensors file with the parameters and statistics of version 0; empty to compute them from
  // the seed, which only a built-in model allows. The digest of its content (32 hexadecimal digits)
  // decides the bits. If the digest is empty, the head fills it in when it admits the job.
  std::string weights;
  std::string weights_digest;
  bool operator==(const ModelSpec&) const = default;
};

// The task of the model; kClassification for a name that is not valid.
Task task_of(const ModelSpec& model);

// The name of the model, or of its file, for texts.
const std::string& model_text(const ModelSpec& model);

// Adapters (LoRA): beside each linear layer y = W x that `targets` names, two small matrices A and
// B are trained, y = W x + (alpha / rank) B A x. Nothing else of the model is trained.
struct LoraSpec {
  std::uint32_t rank = 0;  // rows of A and columns of B; 0 for no adapters
  double alpha = 8.0;
  double dropout = 0.0;  // probability with which an element of the input of A is zeroed
  // Names of modules or of their weights, as in the state dict; "*" stands for any characters.
  std::vector<std::string> targets;
  bool operator==(const LoraSpec&) const = default;
};

struct DataSpec {
  // idx | cifar10 | image_folder | webdataset | ratings | squad | voc | arrays | tokens | texts |
  // python | synthetic. Which ones are allowed depends on the task. esctl encodes texts before it
  // submits a job, whose kind is then tokens.
  std::string kind = "synthetic";
  std::string path;  // file or directory; unused for synthetic data
  // Shape of one image: as generated (synthetic), or as resized (image_folder, voc).
  std::uint32_t height = 28;
  std::uint32_t width = 28;
  std::uint32_t channels = 1;
  std::uint64_t samples = 4096;       // number of training samples (synthetic, python)
  std::uint64_t eval_samples = 1024;  // number of evaluation samples (synthetic, python)
  std::string normalise = "half";    // half: (x-0.5)/0.5 | imagenet: mean and deviation of that set
  std::uint32_t crop_padding = 0;    // pixels of zero padding before a random crop; 0 for no crop
  bool flip = false;                 // random horizontal flip
  bool random_resized_crop = false;  // image_folder: area 0.08..1, aspect 3/4..4/3
  std::uint32_t users = 943;         // synthetic ratings
  std::uint32_t items = 1682;        // synthetic ratings
  std::uint32_t negatives = 4;      // ratings: items without a rating of the user, drawn per rating
  std::uint32_t tokens = 64;        // question answering: length of a sequence
  std::uint32_t vocabulary = 1000;  // synthetic question answering; language modelling
  std::string vocabulary_file;      // squad: WordPiece vocabulary, one token per line
  std::uint32_t boxes = 20;         // detection: maximum number of boxes of one image
  // tokens, language modelling: length of a window; 0 for that of a model file's inputs
  std::uint32_t length = 0;
  std::string token_type = "uint16";  // tokens: type of a .bin file without a header
  bool shifted = true;                // tokens: the labels are one token later than the ids
  // python: the digest of the file `path` (32 hexadecimal digits), which decides the bits. If it is
  // empty, the head fills it in when it admits the job.
  std::string path_digest;
  std::string python;             // python: the interpreter of the loader processes
  std::string python_path;        // python: directories with modules, separated by ':'
  std::uint32_t timeout_s = 300;  // python: the longest time for one sample
  // A file .npy with a weight for every training sample. Samples are drawn with replacement, in
  // proportion to their weights (store/dataset/sample_weights.h); empty: every sample once.
  std::string weights;
  // A file .npy with an integer key for every training sample. An epoch uses one sample of each key
  // (store/dataset/sample_groups.h); empty: every sample. Not together with weights.
  std::string groups;
  // arrays, python: a directory with train.npy and, for an evaluation, eval.npy: for every sample
  // the number of its length bucket (store/dataset/length_buckets.h), which is the program of the
  // model file that computes it; empty: the model itself computes all samples. Neither together
  // with weights nor with groups.
  std::string length_buckets;
  // tokens: the token that ends a document; -1 for none. The tokens of a window then know their
  // document (store/dataset/tokens/tokens_source.cc).
  int document_end = -1;
  std::string tokenizer;     // texts: the tokenizer.json
  std::string text_field;    // texts: the field of JSON lines with the text; empty for "text"
  std::string append_token;  // texts: the token behind every document; empty for none
  double eval_share = 0.0;   // texts: the share of the bytes that become the evaluation
  bool operator==(const DataSpec&) const = default;
};

// Parameters with settings of their own. A parameter belongs to the first group that names it.
struct ParameterGroup {
  // Names of parameters, as in the state dict. "*" stands for any characters, also for none. A
  // parameter with tied weights has several names, and any of them counts.
  std::vector<std::string> parameters;
  double learning_rate_factor = 1.0;   // of OptimizerSpec::learning_rate
  std::optional<double> weight_decay;  // none: OptimizerSpec::weight_decay
  bool operator==(const ParameterGroup&) const = default;
};

// Parameters whose gradient is clipped by a norm of its own. A parameter belongs to the first group
// that names it.
struct ClipGroup {
  std::vector<std::string> parameters;  // as ParameterGroup::parameters
  double clip_norm = 0.0;               // largest norm of their gradient; 0 for no clipping
  bool operator==(const ClipGroup&) const = default;
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
  // Largest norm of the gradient of all parameters that no clip group names; 0 for no clipping.
  double clip_norm = 0.0;
  std::vector<ClipGroup> clip_groups;
  double ema = 0.0;  // decay of the moving average of the parameters; 0 for none
  std::vector<ParameterGroup> groups;
  bool operator==(const OptimizerSpec&) const = default;
};

// Learning rate at global step t (from 0). It is evaluated in fp64 and rounded once to fp32.
//   constant  lr
//   step      lr * gamma^floor(t / step_size)
//   cosine    lr * (floor + (1 - floor) * (1 + cos(pi * u)) / 2)    u = t / total_steps
//   linear    lr * (floor + (1 - floor) * (1 - u))    u = max(0, t - warmup_steps) /
//                                                         (total_steps - warmup_steps)
//   points    lr * value_at(points, t)
//   plateau   lr, lowered whenever evaluations have decided it (ScheduleSpec::metric). Each time
//             the rate r becomes max(r * gamma, min_rate), unless it falls by epsilon or less. That
//             is the rule of torch.optim.lr_scheduler.ReduceLROnPlateau.
// During the first warmup_steps steps the result is multiplied by (t + 1) / warmup_steps.
struct ScheduleSpec {
  std::string kind = "constant";  // constant | step | cosine | linear | points | plateau
  std::uint64_t step_size = 0;
  double gamma = 0.1;
  double floor = 0.0;  // cosine, linear
  std::uint64_t warmup_steps = 0;
  std::vector<SchedulePoint> points;  // kind = "points": factors of the learning rate
  // The momentum of sgd, the beta1 of adam and adamw; empty for that of OptimizerSpec. Not with sgd
  // without a momentum.
  std::vector<SchedulePoint> momentum_points;
  // kind = "plateau": the rate falls after more than `patience` evaluations in a row in which the
  // metric was not better than the best value by `threshold`, which is relative to that value
  // (threshold_mode = "rel") or not ("abs"). The next `cooldown` evaluations do not count.
  std::string metric = "loss";
  std::uint32_t patience = 10;
  double threshold = 1e-4;
  std::string threshold_mode = "rel";
  std::uint32_t cooldown = 0;
  double min_rate = 0.0;
  double epsilon = 1e-8;
  bool operator==(const ScheduleSpec&) const = default;
};

inline constexpr double kBudgetMax = 1e12;

struct ResourceSpec {
  std::uint32_t min_devices = 1;
  std::uint32_t max_devices = 0;  // 0 for max_p
  std::uint32_t threads = 1;      // compute threads per CPU device; the bits do not depend on it
  // Device types that the scheduler may use. If empty, all are allowed at D2, and any one type at
  // other levels. Policies without elastic scaling use the first one.
  std::vector<DeviceType> device_types;
  std::string tenant;           // tenant to which the job belongs; empty for none
  std::string queue;            // queue that it is in; empty for that of its tenant
  int priority = 0;             // -100..100; jobs with a higher priority are served first
  double deadline_seconds = 0;  // longest desired time from submission to end; 0 for none
  bool suspendable = true;      // may be left with nothing after it has started
  double max_seconds = 0;       // longest time with devices, then the job ends; 0 for none
  double budget = 0;            // the most its devices may cost, then it is paused; 0 for none
  bool operator==(const ResourceSpec&) const = default;
};

// Checkpoints that a job writes by itself while it trains, at DIRECTORY/JOB/step-N.
struct CheckpointSpec {
  // Global steps between two checkpoints; the last step has one too; 0 for none.
  std::uint64_t every_steps = 0;
  // Parent directory, which several jobs may share. Nodes need not share a disk: the journal
  // records which node wrote a checkpoint (docs/OPERATIONS.md).
  std::string directory;
  std::uint32_t keep = 3;  // number of newest checkpoints that are kept, 2..1000
  // A metric: the checkpoint of the evaluated version with its best value is kept, too, at
  // DIRECTORY/JOB/best/step-N; empty for none.
  std::string keep_best;
  bool operator==(const CheckpointSpec&) const = default;
};

// The job ends after `patience` evaluations in a row in which the metric was not better than the
// best value by more than min_delta. The evaluated version is then its last one.
struct StopSpec {
  std::string metric;  // empty: the job has all its steps
  std::uint32_t patience = 10;
  double min_delta = 0.0;
  bool operator==(const StopSpec&) const = default;
};

struct AuditSpec {
  // In every such step a second device computes one EST again. Global steps; 0 for none.
  std::uint64_t every_steps = 0;
  bool operator==(const AuditSpec&) const = default;
};

// Whether every worker holds all of the optimizer's state, or two workers hold each part of it.
struct ShardSpec {
  std::string state = "auto";  // auto | off | on
  bool operator==(const ShardSpec&) const = default;
};

// Programs that the head gives the losses and evaluations of the job.
struct LogSpec {
  std::string tensorboard;               // directory for event files; empty: none
  std::string mlflow;                    // URL of a server; empty: none
  std::string experiment = "easyscale";  // of the run in MLflow
  bool any() const { return !tensorboard.empty() || !mlflow.empty(); }
  bool operator==(const LogSpec&) const = default;
};

struct JobSpec {
  std::string name = "job";
  std::uint32_t max_p = 4;        // number of ESTs, 1..1024
  std::uint32_t batch_size = 32;  // samples of one EST in one global step
  std::uint64_t steps = 0;        // number of global steps; 0 if epochs or stages give it
  std::uint64_t epochs = 0;       // passes over the data; used if steps = 0
  std::uint64_t seed = 1;
  DeterminismLevel level = DeterminismLevel::kD1;
  double auto_cost = 0.1;  // level auto: accepted extra cost of D2; 0.1 is 10 % of a step
  // captured | blocks | none: what is computed again in the backward pass, to save memory
  std::string recompute = "captured";
  // fp32 | bf16: how activations, and the weights that products read, are stored
  std::string precision = "fp32";
  // fp32 | x15 | x22: how linear layers and matrix products multiply
  std::string arithmetic = "fp32";
  bool tf32 = false;  // D0 and D1: cuBLAS and cuDNN may round factors to TF32; no effect on CPUs
  ModelSpec model;
  LoraSpec lora;
  DataSpec data;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  std::uint64_t eval_every = 0;  // global steps between two evaluations; 0 for only at the end
  // Model files: what an evaluation computes beside the mean loss (proto/base/metric_kind.h), the
  // main metric first. If empty: the accuracy, if the model predicts labels.
  std::vector<std::string> metrics;
  ResourceSpec resources;
  CheckpointSpec checkpoint;
  StopSpec stop;
  AuditSpec audit;
  ShardSpec shard;
  LogSpec log;
  // Fixed placements, one after the other; empty if the scheduler decides.
  std::vector<Stage> stages;
  bool operator==(const JobSpec&) const = default;
};

// Returns whether evaluations decide how the job goes on.
bool decides(const JobSpec& spec);

// Checks every range, and every relation between fields that needs neither a file nor the machine.
// The error names the field, its value and what is allowed. `where` (e.g. the file) is put before
// it.
Status validate(const JobSpec& spec, const std::string& where);

}  // namespace es

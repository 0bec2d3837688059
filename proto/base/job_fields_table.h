#pragma once
// The rows of the table of job fields. Only job_fields.h includes this file.
#include <utility>

#include "proto/base/metric_kind.h"

namespace es {
namespace job_fields {

constexpr double kStepsMax = 1e12;
constexpr double kIdsMax = 1e8;  // users, items, tokens of a vocabulary
constexpr double kWeightDecayMax = 1e3;
constexpr double kClipNormMax = 1e9;
constexpr double kSamplesMax = 1e9;                  // generated samples
constexpr double kWholeMax = 9223372036854775807.0;  // the largest integer of TOML

inline bool has_model_file(const JobSpec& s) {
  return !s.model.file.empty();
}

// Whether a field has a meaning for a job (JobField::applies).
inline bool has_images(const JobSpec& s) {
  const Task task = task_of(s.model);
  const bool of_images = task == Task::kCaptured && s.data.kind != "arrays" &&
                         s.data.kind != "tokens" && s.data.kind != "python" &&
                         s.data.kind != "texts" && s.data.kind != "ratings" &&
                         s.data.kind != "squad";
  return task == Task::kClassification || task == Task::kDetection || of_images;
}
// Whether the images are files of any size, each with a class.
inline bool has_image_files(const DataSpec& d) {
  return d.kind == "image_folder" || d.kind == "webdataset";
}
inline bool has_image_shape(const JobSpec& s) {
  return has_images(s) &&
         (s.data.kind == "synthetic" || has_image_files(s.data) || s.data.kind == "voc");
}
inline bool has_token_files(const JobSpec& s) {
  return s.data.kind == "tokens";
}
inline bool has_texts(const JobSpec& s) {
  return s.data.kind == "texts";
}
inline bool has_documents(const JobSpec& s) {
  return has_token_files(s) || has_texts(s);
}
inline bool is_language_model(const JobSpec& s) {
  return task_of(s.model) == Task::kLanguage;
}
inline bool has_adapters(const JobSpec& s) {
  return s.lora.rank != 0;
}
inline bool is_python(const JobSpec& s) {
  return s.data.kind == "python";
}
inline bool has_length_buckets(const JobSpec& s) {
  return !s.model.file.empty() && (is_python(s) || s.data.kind == "arrays");
}
inline bool is_synthetic(const JobSpec& s) {
  return s.data.kind == "synthetic";
}
// Whether the job file says how many samples there are.
inline bool has_counts(const JobSpec& s) {
  return is_synthetic(s) || is_python(s);
}
// Whether the job has the data of the task. Synthetic data of a model file may be of any task.
inline bool has_data_of(const JobSpec& s, Task task, std::string_view kind) {
  const bool captured = task_of(s.model) == Task::kCaptured;
  return captured ? s.data.kind == kind || is_synthetic(s) : task_of(s.model) == task;
}
inline bool recommends(const JobSpec& s) {
  return has_data_of(s, Task::kRecommendation, "ratings");
}
inline bool answers_questions(const JobSpec& s) {
  return has_data_of(s, Task::kQuestionAnswering, "squad");
}
inline bool predicts_tokens(const JobSpec& s) {
  return has_data_of(s, Task::kLanguage, "tokens") || has_texts(s);
}
inline bool has_vocabulary(const JobSpec& s) {
  return answers_questions(s) || predicts_tokens(s);
}
inline bool detects(const JobSpec& s) {
  return has_data_of(s, Task::kDetection, "voc");
}
inline bool goes_by_steps(const JobSpec& s) {
  return s.schedule.kind == "step";
}
inline bool falls_to_the_end(const JobSpec& s) {
  return s.schedule.kind == "cosine" || s.schedule.kind == "linear";
}

inline bool goes_by_points(const JobSpec& s) {
  return s.schedule.kind == "points";
}
inline bool goes_by_evaluations(const JobSpec& s) {
  return s.schedule.kind == "plateau";
}
inline bool may_stop(const JobSpec& s) {
  return !s.stop.metric.empty();
}
constexpr std::size_t kMetricBytesMax = 16;
constexpr double kPatienceMax = 1e6;
constexpr const char* kMetricAllowed = "a metric of the job's evaluations, such as \"loss\"";
inline constexpr std::size_t kPointsBytesMax = std::size_t{64} << 10;

template <class Spec, class Visit>
void visit_top(Spec& s, Visit& visit) {
  visit(JobField{.key = "name",
                 .bits = Bits::kNot,
                 .meaning = "Name of the job; the id of the job begins with it.",
                 .allowed = "1 to 64 letters, digits, '-', '_' or '.'"},
        s.name);
  visit(JobField{.key = "max_p",
                 .unit = "ESTs",
                 .meaning = "Number of EasyScale threads (ESTs) that train the job. The "
                            "job uses at most as many devices, and its global batch has "
                            "max_p * batch_size samples.",
                 .low = 1,
                 .high = 1024},
        s.max_p);
  visit(JobField{.key = "batch_size",
                 .unit = "samples",
                 .meaning = "Samples of one EST in one global step.",
                 .low = 1,
                 .high = 65'536},
        s.batch_size);
  visit(JobField{.key = "steps",
                 .bits = Bits::kByLength,
                 .unit = "global steps",
                 .meaning = "Length of the training.",
                 .high = kStepsMax,
                 .zero = "given by epochs or stages"},
        s.steps);
  visit(JobField{.key = "epochs",
                 .bits = Bits::kByLength,
                 .unit = "passes over the data",
                 .meaning = "Length of the training; it may not be given beside steps or "
                            "stages.",
                 .high = 1e6,
                 .zero = "given by steps or stages"},
        s.epochs);
  visit(JobField{.key = "seed",
                 .meaning = "Seed of all random numbers: initial parameters, order of the "
                            "samples, augmentation and dropout.",
                 .high = kWholeMax,
                 .allowed = "0 to 9223372036854775807"},
        s.seed);
  visit(
      JobField{.key = "level",
               .bits = Bits::kByLevel,
               .meaning = "On which sets of devices the result has the same bits: D0 the same "
                          "devices, D1 any number of one type, D2 any mix of types, auto D2 where "
                          "it costs little.",
               .choices = "D0|D1|D2|auto"},
      s.level);
  visit(JobField{.key = "auto_cost",
                 .bits = Bits::kNot,
                 .unit = "part of a step",
                 .meaning = "Largest cost of D2 over D1 that level auto accepts.",
                 .high = 100},
        s.auto_cost);
  visit(JobField{.key = "tf32",
                 .bits = Bits::kByLevel,
                 .meaning = "At D0 and D1, cuBLAS and cuDNN may round the factors of products to "
                            "TF32.",
                 .left_out_at_default = true},
        s.tf32);
  visit(JobField{.key = "recompute",
                 .bits = Bits::kNot,
                 .meaning = "What is computed again in the backward pass, which saves memory and "
                            "takes time: the checkpoints of a captured model, blocks that are "
                            "chosen for the least memory, or nothing.",
                 .choices = "captured|blocks|none",
                 .left_out_at_default = true},
        s.recompute);
  visit(JobField{.key = "precision",
                 .meaning = "How activations, and the weights that products read, are stored; "
                            "sums, parameters and moments are always fp32.",
                 .choices = "fp32|bf16",
                 .left_out_at_default = true},
        s.precision);
  visit(JobField{.key = "arithmetic",
                 .meaning = "How linear layers and matrix products multiply: chains of fp32, or "
                            "exact sums of integers of 15 or 22 bits.",
                 .choices = "fp32|x15|x22",
                 .left_out_at_default = true},
        s.arithmetic);
  visit(JobField{.key = "eval_every",
                 .bits = Bits::kNot,
                 .unit = "global steps",
                 .meaning = "Steps between two evaluations; the job is always evaluated "
                            "after its last step.",
                 .high = kStepsMax,
                 .zero = "only at the end"},
        s.eval_every);
  visit(JobField{.key = "metrics",
                 .bits = Bits::kNot,
                 .meaning = "What evaluations compute beside the mean loss, the main metric first; "
                            "empty: the accuracy, if the model predicts labels.",
                 .bytes_max = 16,
                 .allowed = kMetricNames,
                 .applies = has_model_file,
                 .applies_to = "model files",
                 .left_out_at_default = true},
        s.metrics);
  visit(JobField{.key = "stages",
                 .bits = Bits::kNot,
                 .meaning = "Placements that the job goes through, instead of what the scheduler "
                            "decides.",
                 .bytes_max = std::size_t{64} << 10,
                 .allowed = "PLACEMENT@STEPS[,PLACEMENT@STEPS...], e.g. "
                            "\"cpu-avx512:4@20,cpu-avx2:2@20\"",
                 .left_out_at_default = true},
        s.stages);
}

template <class Model, class Visit>
void visit_model(Model& m, Visit& visit) {
  visit(JobField{.key = "model.file",
                 .bits = Bits::kByContent,
                 .meaning = "A model file, which takes the place of name, size, width, classes and "
                            "dropout; it needs weights if it gives no "
                            "initial values.",
                 .left_out_at_default = true},
        m.file);
  visit(JobField{.key = "model.file_digest",
                 .meaning = "The digest of the model in that file; the head fills it in when it is "
                            "empty.",
                 .allowed = "32 lower-case hexadecimal digits",
                 .left_out_at_default = true},
        m.file_digest);
  visit(JobField{.key = "model.name",
                 .meaning = "The model; it decides the task.",
                 .allowed = "a name of a built-in model, see below",
                 .excluded = has_model_file,
                 .excluded_by = "model.file"},
        m.name);
  visit(JobField{.key = "model.size",
                 .meaning = "The published size, or the same architecture small enough for tests.",
                 .choices = "published|tiny",
                 .excluded = has_model_file,
                 .excluded_by = "model.file"},
        m.size);
  visit(JobField{.key = "model.width",
                 .unit = "channels",
                 .meaning = "Base width of small_cnn, resnet18 and mlp.",
                 .high = 4096,
                 .zero = "that of the size",
                 .excluded = has_model_file,
                 .excluded_by = "model.file"},
        m.width);
  visit(JobField{.key = "model.classes",
                 .unit = "classes",
                 .meaning = "Classes that the model distinguishes; at least 2 for classification.",
                 .low = 1,
                 .high = 100'000,
                 .excluded = has_model_file,
                 .excluded_by = "model.file"},
        m.classes);
  visit(JobField{.key = "model.dropout",
                 .meaning = "Probability with which dropout zeroes a value.",
                 .high = 1,
                 .high_is_open = true,
                 .also = -1,
                 .also_means = "the published one",
                 .excluded = has_model_file,
                 .excluded_by = "model.file"},
        m.dropout);
  visit(JobField{.key = "model.label_smoothing",
                 .meaning = "The share of the cross entropy in training and evaluation that all "
                            "classes have together, instead of the right one.",
                 .high = 1,
                 .high_is_open = true,
                 .applies = is_language_model,
                 .applies_to = "built-in language models",
                 .left_out_at_default = true,
                 .excluded = has_model_file,
                 .excluded_by = "model.file"},
        m.label_smoothing);
  visit(JobField{.key = "model.z_loss",
                 .meaning = "Factor z of the z-loss: z times the mean of logsumexp(logits)^2 is "
                            "added to the loss.",
                 .high = 1,
                 .zero = "none",
                 .applies = is_language_model,
                 .applies_to = "built-in language models",
                 .left_out_at_default = true,
                 .excluded = has_model_file,
                 .excluded_by = "model.file"},
        m.z_loss);
  visit(JobField{.key = "model.weights",
                 .bits = Bits::kByContent,
                 .meaning = "A safetensors file with the parameters of version 0; empty: they come "
                            "from the seed, if the model says how."},
        m.weights);
  visit(JobField{.key = "model.weights_digest",
                 .meaning = "The digest of that file; the head fills it in when it is empty.",
                 .allowed = "32 lower-case hexadecimal digits"},
        m.weights_digest);
}

template <class Lora, class Visit>
void visit_lora(Lora& l, Visit& visit) {
  visit(JobField{.key = "lora.rank",
                 .meaning = "Rank of the adapters (LoRA): y = W x + (alpha / rank) B A x. Only A "
                            "and B are trained.",
                 .high = 4096,
                 .zero = "no adapters",
                 .left_out_at_default = true},
        l.rank);
  visit(JobField{.key = "lora.alpha",
                 .meaning = "What the adapters add has the factor alpha / rank.",
                 .high = 1e6,
                 .low_is_open = true,
                 .applies = has_adapters,
                 .applies_to = "rank above 0",
                 .left_out_at_default = true},
        l.alpha);
  visit(JobField{.key = "lora.dropout",
                 .meaning = "Probability with which an element of the input of A is zeroed.",
                 .high = 1,
                 .high_is_open = true,
                 .applies = has_adapters,
                 .applies_to = "rank above 0",
                 .left_out_at_default = true},
        l.dropout);
  visit(JobField{.key = "lora.targets",
                 .meaning = "Linear layers that get adapters, by the names of their modules or "
                            "weights in the state dict; `*` stands for any characters. Each one "
                            "must name a linear layer of the model.",
                 .bytes_max = 1024,
                 .allowed = "a list of at least one name",
                 .applies = has_adapters,
                 .applies_to = "rank above 0",
                 .left_out_at_default = true},
        l.targets);
}

template <class Data, class Visit>
void visit_data(Data& d, Visit& visit) {
  visit(JobField{.key = "data.kind",
                 .meaning = "The format of the data; which ones fit depends on the task.",
                 .allowed = "a kind that fits the task, see below"},
        d.kind);
  visit(JobField{.key = "data.path",
                 .bits = Bits::kByContent,
                 .meaning = "The file or directory of the data; not for synthetic."},
        d.path);
  visit(JobField{.key = "data.height",
                 .unit = "pixels",
                 .meaning = "Height to which images are generated or scaled.",
                 .low = 1,
                 .high = 4096,
                 .applies = has_image_shape,
                 .applies_to = "synthetic images, image_folder, webdataset, voc"},
        d.height);
  visit(JobField{.key = "data.width",
                 .unit = "pixels",
                 .meaning = "Width to which images are generated or scaled.",
                 .low = 1,
                 .high = 4096,
                 .applies = has_image_shape,
                 .applies_to = "synthetic images, image_folder, webdataset, voc"},
        d.width);
  visit(JobField{.key = "data.channels",
                 .meaning = "Channels of an image.",
                 .low = 1,
                 .high = 64,
                 .applies = has_image_shape,
                 .applies_to = "synthetic images, image_folder, webdataset, voc"},
        d.channels);
  visit(JobField{.key = "data.samples",
                 .unit = "samples",
                 .meaning = "Number of training samples that are generated, or that a Python "
                            "dataset has.",
                 .low = 1,
                 .high = kSamplesMax,
                 .applies = has_counts,
                 .applies_to = "synthetic data, python"},
        d.samples);
  visit(JobField{.key = "data.eval_samples",
                 .unit = "samples",
                 .meaning = "Number of evaluation samples that are generated, or that a Python "
                            "dataset has.",
                 .high = kSamplesMax,
                 .applies = has_counts,
                 .applies_to = "synthetic data, python"},
        d.eval_samples);
  visit(JobField{.key = "data.normalise",
                 .meaning = "How pixels x from 0 to 1 become inputs: half is (x - 0.5) / 0.5, "
                            "imagenet uses the mean and deviation of that set.",
                 .choices = "half|imagenet",
                 .applies = has_images,
                 .applies_to = "images"},
        d.normalise);
  visit(JobField{.key = "data.crop_padding",
                 .unit = "pixels",
                 .meaning = "Zeros added to each side of an image before a random crop.",
                 .high = 64,
                 .zero = "no cropping",
                 .applies = has_images,
                 .applies_to = "images"},
        d.crop_padding);
  visit(JobField{.key = "data.flip",
                 .meaning = "Half of the images, at random, are flipped left to right.",
                 .applies = has_images,
                 .applies_to = "images"},
        d.flip);
  visit(JobField{.key = "data.random_resized_crop",
                 .meaning = "A random part of 8 to 100 % of an image, of aspect 3/4 to 4/3, is "
                            "scaled to height and width.",
                 .applies = has_images,
                 .applies_to = "image_folder, webdataset"},
        d.random_resized_crop);
  visit(JobField{.key = "data.users",
                 .meaning = "Users of generated ratings.",
                 .low = 1,
                 .high = kIdsMax,
                 .applies = recommends,
                 .applies_to = "recommendation"},
        d.users);
  visit(JobField{.key = "data.items",
                 .meaning = "Items of generated ratings.",
                 .low = 2,
                 .high = kIdsMax,
                 .applies = recommends,
                 .applies_to = "recommendation"},
        d.items);
  visit(JobField{.key = "data.negatives",
                 .meaning = "Items without a rating of the user that are drawn for each "
                            "rating.",
                 .low = 1,
                 .high = 1000,
                 .applies = recommends,
                 .applies_to = "recommendation"},
        d.negatives);
  visit(JobField{.key = "data.tokens",
                 .unit = "tokens",
                 .meaning = "Length of a sequence.",
                 .low = 8,
                 .high = 512,
                 .applies = answers_questions,
                 .applies_to = "question answering"},
        d.tokens);
  visit(JobField{.key = "data.vocabulary",
                 .unit = "tokens",
                 .meaning = "Size of the vocabulary of generated questions and of built-in "
                            "language models.",
                 .low = 16,
                 .high = kIdsMax,
                 .applies = has_vocabulary,
                 .applies_to = "question answering, language modelling"},
        d.vocabulary);
  visit(JobField{.key = "data.vocabulary_file",
                 .bits = Bits::kByContent,
                 .meaning = "WordPiece vocabulary of squad, one token a line."},
        d.vocabulary_file);
  visit(JobField{.key = "data.boxes",
                 .meaning = "Largest number of boxes of one image; further boxes are left "
                            "out.",
                 .low = 1,
                 .high = 1000,
                 .applies = detects,
                 .applies_to = "detection"},
        d.boxes);
  visit(JobField{.key = "data.length",
                 .unit = "tokens",
                 .meaning = "Length of a sequence of tokens, which is a sample.",
                 .high = 1 << 20,
                 .zero = "that of the inputs of a model file",
                 .applies = predicts_tokens,
                 .applies_to = "tokens, language modelling",
                 .left_out_at_default = true},
        d.length);
  visit(JobField{.key = "data.token_type",
                 .meaning = "Type of the tokens in .bin files that have no header.",
                 .choices = "uint16|uint32",
                 .applies = has_token_files,
                 .applies_to = "tokens",
                 .left_out_at_default = true},
        d.token_type);
  visit(JobField{.key = "data.shifted",
                 .meaning = "Labels are one token later than ids; false: they are the ids, for a "
                            "model that shifts them itself.",
                 .applies = has_documents,
                 .applies_to = "tokens, texts",
                 .left_out_at_default = true},
        d.shifted);
  visit(JobField{.key = "data.path_digest",
                 .meaning = "The digest of the file of a Python dataset; the head fills it in when "
                            "it is empty.",
                 .allowed = "32 lower-case hexadecimal digits",
                 .applies = is_python,
                 .applies_to = "python",
                 .left_out_at_default = true},
        d.path_digest);
  visit(
      JobField{.key = "data.python",
               .bits = Bits::kByContent,
               .meaning = "The Python interpreter that computes the samples; every node has it at "
                          "this path, with the same packages.",
               .applies = is_python,
               .applies_to = "python",
               .left_out_at_default = true},
      d.python);
  visit(JobField{.key = "data.python_path",
                 .bits = Bits::kByContent,
                 .meaning = "Directories with modules of the dataset, separated by ':'.",
                 .bytes_max = 16384,
                 .applies = is_python,
                 .applies_to = "python",
                 .left_out_at_default = true},
        d.python_path);
  visit(JobField{.key = "data.timeout_s",
                 .bits = Bits::kNot,
                 .unit = "seconds",
                 .meaning = "The longest time that a Python dataset may take for one sample.",
                 .low = 1,
                 .high = 86'400,
                 .applies = is_python,
                 .applies_to = "python",
                 .left_out_at_default = true},
        d.timeout_s);
  visit(JobField{.key = "data.weights",
                 .bits = Bits::kByContent,
                 .meaning = "A file .npy with a weight for every training sample: samples are "
                            "drawn with replacement, in proportion to them.",
                 .left_out_at_default = true},
        d.weights);
  visit(JobField{.key = "data.groups",
                 .bits = Bits::kByContent,
                 .meaning = "A file .npy with an integer key for every training sample: an epoch "
                            "uses one sample of each key, and all of them in turn. Not together "
                            "with weights.",
                 .left_out_at_default = true},
        d.groups);
  visit(JobField{.key = "data.length_buckets",
                 .bits = Bits::kByContent,
                 .meaning = "A directory with train.npy and, if there is an evaluation, eval.npy: "
                            "for every sample the number of its length bucket, which is the "
                            "program of the model file that computes it. Neither together with "
                            "weights nor with groups.",
                 .applies = has_length_buckets,
                 .applies_to = "a model file with arrays or python",
                 .left_out_at_default = true},
        d.length_buckets);
  visit(JobField{.key = "data.document_end",
                 .meaning = "The token that ends a document: the tokens of a window then attend "
                            "to those of their document only, and positions begin again.",
                 .high = kIdsMax,
                 .also = -1,
                 .also_means = "no documents",
                 .applies = has_documents,
                 .applies_to = "tokens, texts",
                 .left_out_at_default = true},
        d.document_end);
  visit(JobField{.key = "data.tokenizer",
                 .bits = Bits::kByContent,
                 .meaning = "The tokenizer.json that encodes the texts.",
                 .applies = has_texts,
                 .applies_to = "texts",
                 .left_out_at_default = true},
        d.tokenizer);
  visit(JobField{.key = "data.text_field",
                 .meaning = "The field of JSON lines with the text; empty: text.",
                 .bytes_max = 256,
                 .applies = has_texts,
                 .applies_to = "texts",
                 .left_out_at_default = true},
        d.text_field);
  visit(JobField{.key = "data.append_token",
                 .meaning = "The token that is put behind every document, by its name; empty: "
                            "none.",
                 .bytes_max = 256,
                 .applies = has_texts,
                 .applies_to = "texts",
                 .left_out_at_default = true},
        d.append_token);
  visit(JobField{.key = "data.eval_share",
                 .unit = "part of the bytes",
                 .meaning = "The share of the texts that becomes the evaluation.",
                 .high = 1,
                 .high_is_open = true,
                 .applies = has_texts,
                 .applies_to = "texts",
                 .left_out_at_default = true},
        d.eval_share);
}

inline constexpr JobField kGroupParameters{
    .key = "parameters",
    .meaning =
        "Names of parameters, as in the state dict; `*` stands for any characters. Each one "
        "must name a parameter of the model.",
    .bytes_max = 1024,
    .allowed = "a list of at least one name"};
inline constexpr std::size_t kGroupsBytesMax = std::size_t{64} << 10;

template <class Group, class Visit>
void visit_clip_group(Group& g, Visit& visit) {
  visit(kGroupParameters, g.parameters);
  visit(JobField{.key = "clip_norm",
                 .meaning = "The largest norm of the gradient of these parameters together.",
                 .high = kClipNormMax,
                 .zero = "no clipping"},
        g.clip_norm);
}

template <class Group, class Visit>
void visit_group(Group& g, Visit& visit) {
  visit(kGroupParameters, g.parameters);
  visit(JobField{.key = "learning_rate_factor",
                 .meaning = "The learning rate of the group is this factor times that of the job, "
                            "with the same schedule.",
                 .high = 1e6},
        g.learning_rate_factor);
  visit(JobField{.key = "weight_decay",
                 .meaning = "Weight decay of the group; without it, that of the job.",
                 .high = kWeightDecayMax},
        g.weight_decay);
}

template <class Optimizer, class Visit>
void visit_optimizer(Optimizer& o, Visit& visit) {
  visit(JobField{.key = "optimizer.kind",
                 .meaning = "The rule by which gradients change parameters.",
                 .choices = "sgd|adam|adamw|captured"},
        o.kind);
  visit(JobField{.key = "optimizer.learning_rate",
                 .meaning = "Learning rate before the schedule.",
                 .high = 1e6},
        o.learning_rate);
  visit(JobField{.key = "optimizer.momentum", .meaning = "Momentum of sgd.", .high = 1},
        o.momentum);
  visit(JobField{.key = "optimizer.nesterov",
                 .meaning = "Nesterov's form of momentum; sgd with a momentum above 0."},
        o.nesterov);
  visit(JobField{.key = "optimizer.beta1",
                 .meaning = "Decay of the first moment of adam and adamw.",
                 .high = 1,
                 .high_is_open = true},
        o.beta1);
  visit(JobField{.key = "optimizer.beta2",
                 .meaning = "Decay of the second moment of adam and adamw.",
                 .high = 1,
                 .high_is_open = true},
        o.beta2);
  visit(JobField{.key = "optimizer.epsilon",
                 .meaning = "Added to the root of the second moment of adam and adamw.",
                 .high = 1,
                 .low_is_open = true},
        o.epsilon);
  visit(JobField{.key = "optimizer.weight_decay",
                 .meaning = "Weight decay: added to the gradient by sgd and adam, apart from it by "
                            "adamw.",
                 .high = kWeightDecayMax},
        o.weight_decay);
  visit(JobField{.key = "optimizer.clip_norm",
                 .meaning = "The largest norm of the whole gradient; a larger one is scaled down. "
                            "The parameters of clip groups do not belong to it.",
                 .high = kClipNormMax,
                 .zero = "no clipping"},
        o.clip_norm);
  visit(JobField{.key = "optimizer.clip_groups",
                 .meaning = "Groups of parameters whose gradients are clipped by a norm of their "
                            "own. A parameter belongs to the first group that names it.",
                 .bytes_max = kGroupsBytesMax,
                 .allowed = "a list of at most 256 tables with parameters and clip_norm",
                 .left_out_at_default = true},
        o.clip_groups);
  visit(JobField{.key = "optimizer.ema",
                 .meaning = "Decay of a moving average of the parameters, which evaluations use.",
                 .high = 1,
                 .high_is_open = true,
                 .zero = "no average",
                 .left_out_at_default = true},
        o.ema);
  visit(JobField{.key = "optimizer.groups",
                 .meaning = "Groups of parameters with settings of their own. A "
                            "parameter belongs to the first group that names it; one that no "
                            "group names has the settings of the job.",
                 .bytes_max = kGroupsBytesMax,
                 .allowed = "a list of at most 256 tables with parameters, learning_rate_factor "
                            "and weight_decay",
                 .left_out_at_default = true},
        o.groups);
}

template <class Schedule, class Visit>
void visit_plateau(Schedule& s, Visit& visit) {
  visit(JobField{.key = "schedule.metric",
                 .meaning = "The metric of evaluations that lowers the learning rate when it does "
                            "not become better.",
                 .bytes_max = kMetricBytesMax,
                 .allowed = kMetricAllowed,
                 .applies = goes_by_evaluations,
                 .applies_to = "kind = \"plateau\"",
                 .left_out_at_default = true},
        s.metric);
  visit(JobField{.key = "schedule.patience",
                 .unit = "evaluations",
                 .meaning = "Evaluations in a row without a better value that change nothing; "
                            "after one more the learning rate is multiplied by gamma.",
                 .high = kPatienceMax,
                 .applies = goes_by_evaluations,
                 .applies_to = "kind = \"plateau\"",
                 .left_out_at_default = true},
        s.patience);
  visit(JobField{.key = "schedule.threshold",
                 .meaning = "By how much a value must be better than the best one to count.",
                 .high = 1e9,
                 .applies = goes_by_evaluations,
                 .applies_to = "kind = \"plateau\"",
                 .left_out_at_default = true},
        s.threshold);
  visit(JobField{.key = "schedule.threshold_mode",
                 .meaning = "Whether the threshold is a share of the best value, or a difference.",
                 .choices = "rel|abs",
                 .applies = goes_by_evaluations,
                 .applies_to = "kind = \"plateau\"",
                 .left_out_at_default = true},
        s.threshold_mode);
  visit(JobField{.key = "schedule.cooldown",
                 .unit = "evaluations",
                 .meaning = "Evaluations after a reduction that count as if they were better.",
                 .high = kPatienceMax,
                 .applies = goes_by_evaluations,
                 .applies_to = "kind = \"plateau\"",
                 .left_out_at_default = true},
        s.cooldown);
  visit(JobField{.key = "schedule.min_rate",
                 .meaning = "The learning rate does not fall below it.",
                 .high = 1e6,
                 .applies = goes_by_evaluations,
                 .applies_to = "kind = \"plateau\"",
                 .left_out_at_default = true},
        s.min_rate);
  visit(JobField{.key = "schedule.epsilon",
                 .meaning = "A reduction of the learning rate by at most this is not made.",
                 .high = 1e6,
                 .applies = goes_by_evaluations,
                 .applies_to = "kind = \"plateau\"",
                 .left_out_at_default = true},
        s.epsilon);
}

template <class Schedule, class Visit>
void visit_schedule(Schedule& s, Visit& visit) {
  visit(JobField{.key = "schedule.kind",
                 .meaning = "How the learning rate changes with the steps.",
                 .choices = "constant|step|cosine|linear|points|plateau"},
        s.kind);
  visit(JobField{.key = "schedule.step_size",
                 .unit = "global steps",
                 .meaning = "Steps after which the learning rate is multiplied by gamma, "
                            "again and again.",
                 .low = 1,
                 .high = kStepsMax,
                 .applies = goes_by_steps,
                 .applies_to = "kind = \"step\""},
        s.step_size);
  visit(JobField{.key = "schedule.gamma",
                 .meaning = "The factor of kind = \"step\" and \"plateau\".",
                 .high = 1},
        s.gamma);
  visit(JobField{.key = "schedule.floor",
                 .meaning = "The share of the learning rate that is left at the end.",
                 .high = 1,
                 .applies = falls_to_the_end,
                 .applies_to = "kind = \"cosine\" or \"linear\"",
                 .left_out_at_default = true},
        s.floor);
  visit(JobField{.key = "schedule.warmup_steps",
                 .unit = "global steps",
                 .meaning = "Steps at the beginning during which the learning rate grows "
                            "linearly.",
                 .high = kStepsMax},
        s.warmup_steps);
  visit(
      JobField{.key = "schedule.points",
               .meaning = "Factors of the learning rate at some global steps; it is linear between "
                          "them, and constant behind the last one.",
               .high = 1e6,
               .bytes_max = kPointsBytesMax,
               .allowed = "STEP:FACTOR[,STEP:FACTOR...] with rising steps from 0 and factors up to "
                          "1000000",
               .applies = goes_by_points,
               .applies_to = "kind = \"points\"",
               .left_out_at_default = true},
      s.points);
  visit(JobField{.key = "schedule.momentum_points",
                 .meaning = "The momentum of sgd, or the beta1 of adam and adamw, at some global "
                            "steps, in the same form; empty for the constant one.",
                 .high = 1,
                 .high_is_open = true,
                 .bytes_max = kPointsBytesMax,
                 .allowed =
                     "empty, or STEP:VALUE[,STEP:VALUE...] with rising steps from 0 and values "
                     "below 1, for adam, adamw and sgd with a momentum",
                 .left_out_at_default = true},
        s.momentum_points);
  visit_plateau(s, visit);
}

template <class Resources, class Visit>
void visit_resources(Resources& r, Visit& visit) {
  visit(JobField{.key = "resources.min_devices",
                 .bits = Bits::kNot,
                 .unit = "devices",
                 .meaning = "Smallest number of devices with which the job trains.",
                 .low = 1,
                 .high = 1024,
                 .allowed = "1 to max_p"},
        r.min_devices);
  visit(JobField{.key = "resources.max_devices",
                 .bits = Bits::kNot,
                 .unit = "devices",
                 .meaning = "Largest number of devices that the scheduler gives the job.",
                 .high = 1024,
                 .allowed = "0 (max_p), or min_devices to max_p"},
        r.max_devices);
  visit(JobField{.key = "resources.threads",
                 .bits = Bits::kNot,
                 .unit = "threads",
                 .meaning = "Compute threads of a CPU device.",
                 .low = 1,
                 .high = 256},
        r.threads);
  visit(JobField{.key = "resources.device_types",
                 .bits = Bits::kNot,
                 .meaning = "The device types that the scheduler may choose; empty: all. Policies "
                            "that do not scale give the first one.",
                 .bytes_max = 64,
                 .allowed = "a list of at most 256 device types"},
        r.device_types);
  visit(JobField{.key = "resources.tenant",
                 .bits = Bits::kNot,
                 .meaning = "Tenant to which the job belongs; empty: none.",
                 .bytes_max = 64},
        r.tenant);
  visit(JobField{.key = "resources.queue",
                 .bits = Bits::kNot,
                 .meaning = "Queue of the head that the job is in; empty: that of its tenant, or "
                            "`default`, if there is one.",
                 .bytes_max = 64,
                 .left_out_at_default = true},
        r.queue);
  visit(JobField{.key = "resources.priority",
                 .bits = Bits::kNot,
                 .meaning = "Jobs with a higher priority are served first.",
                 .low = -100,
                 .high = 100},
        r.priority);
  visit(JobField{.key = "resources.deadline_seconds",
                 .bits = Bits::kNot,
                 .unit = "seconds",
                 .meaning = "Time after the submission by which the job should have ended.",
                 .high = 1e9,
                 .zero = "none"},
        r.deadline_seconds);
  visit(JobField{.key = "resources.suspendable",
                 .bits = Bits::kNot,
                 .meaning = "Whether the scheduler may take all devices of the job after it has "
                            "started. If not, it keeps min_devices until it ends.",
                 .left_out_at_default = true},
        r.suspendable);
  visit(JobField{.key = "resources.max_seconds",
                 .bits = Bits::kNot,
                 .unit = "seconds",
                 .meaning = "Longest time for which the job may hold devices, without the time in "
                            "which it waits. Then it is saved and ends as timed-out.",
                 .high = 1e9,
                 .zero = "none",
                 .left_out_at_default = true},
        r.max_seconds);
  visit(JobField{.key = "resources.budget",
                 .bits = Bits::kNot,
                 .unit = "unit of the prices",
                 .meaning = "The most that the devices of the job may cost, at the prices of the "
                            "head. Then it is saved and paused until `esctl budget` gives more.",
                 .high = kBudgetMax,
                 .zero = "none",
                 .left_out_at_default = true},
        r.budget);
}

template <class Checkpoint, class Visit>
void visit_checkpoint(Checkpoint& c, Visit& visit) {
  visit(JobField{.key = "checkpoint.every_steps",
                 .bits = Bits::kNot,
                 .unit = "global steps",
                 .meaning = "Steps between two checkpoints of the job's own series, which "
                            "also has one of the last step.",
                 .high = kStepsMax,
                 .zero = "no series"},
        c.every_steps);
  visit(JobField{.key = "checkpoint.directory",
                 .bits = Bits::kNot,
                 .meaning = "The directory of the series; each job has a folder of its own in it."},
        c.directory);
  visit(JobField{.key = "checkpoint.keep",
                 .bits = Bits::kNot,
                 .unit = "checkpoints",
                 .meaning = "Number of checkpoints of the series that are kept, the newest "
                            "ones.",
                 .low = 2,
                 .high = 1000},
        c.keep);
  visit(JobField{.key = "checkpoint.keep_best",
                 .bits = Bits::kNot,
                 .meaning = "A metric of the evaluations: the checkpoint of the version with its "
                            "best value is kept, too, in `best` beside the series; empty: none.",
                 .bytes_max = kMetricBytesMax,
                 .allowed = kMetricAllowed,
                 .left_out_at_default = true},
        c.keep_best);
}

template <class Stop, class Visit>
void visit_stop(Stop& s, Visit& visit) {
  visit(JobField{.key = "stop.metric",
                 .bits = Bits::kNot,
                 .meaning = "The metric of evaluations that ends the job when it does not become "
                            "better; empty: the job has all its steps.",
                 .bytes_max = kMetricBytesMax,
                 .allowed = kMetricAllowed,
                 .left_out_at_default = true},
        s.metric);
  visit(JobField{.key = "stop.patience",
                 .bits = Bits::kNot,
                 .unit = "evaluations",
                 .meaning = "Evaluations in a row without a better value after which the job ends.",
                 .low = 1,
                 .high = kPatienceMax,
                 .applies = may_stop,
                 .applies_to = "a job with stop.metric",
                 .left_out_at_default = true},
        s.patience);
  visit(JobField{.key = "stop.min_delta",
                 .bits = Bits::kNot,
                 .meaning = "A value counts as better only if it differs from the best one by more "
                            "than this.",
                 .high = 1e9,
                 .applies = may_stop,
                 .applies_to = "a job with stop.metric",
                 .left_out_at_default = true},
        s.min_delta);
}

template <class Log, class Visit>
void visit_log(Log& l, Visit& visit) {
  visit(
      JobField{.key = "log.tensorboard",
               .bits = Bits::kNot,
               .meaning = "A directory, in which the head keeps an event file with all losses and "
                          "evaluations in a folder for the job.",
               .left_out_at_default = true},
      l.tensorboard);
  visit(JobField{.key = "log.mlflow",
                 .bits = Bits::kNot,
                 .meaning = "The MLflow server to which the head writes the same as a run.",
                 .bytes_max = 1024,
                 .allowed = "http://HOST[:PORT][/PATH] or https://HOST[:PORT][/PATH]",
                 .left_out_at_default = true},
        l.mlflow);
  visit(JobField{.key = "log.experiment",
                 .bits = Bits::kNot,
                 .meaning = "The experiment of the run in MLflow.",
                 .bytes_max = 256,
                 .left_out_at_default = true},
        l.experiment);
}

}  // namespace job_fields

template <class Group, class Visit>
void visit_group_fields(Group& group, Visit&& visit) {
  if constexpr (std::is_same_v<std::remove_const_t<Group>, ClipGroup>)
    job_fields::visit_clip_group(group, visit);
  else
    job_fields::visit_group(group, visit);
}

template <class Spec, class Visit>
void visit_job_fields(Spec& spec, Visit&& visit) {
  job_fields::visit_top(spec, visit);
  job_fields::visit_model(spec.model, visit);
  job_fields::visit_lora(spec.lora, visit);
  job_fields::visit_data(spec.data, visit);
  job_fields::visit_optimizer(spec.optimizer, visit);
  job_fields::visit_schedule(spec.schedule, visit);
  job_fields::visit_resources(spec.resources, visit);
  job_fields::visit_checkpoint(spec.checkpoint, visit);
  job_fields::visit_stop(spec.stop, visit);
  visit(JobField{.key = "audit.every_steps",
                 .bits = Bits::kNot,
                 .unit = "global steps",
                 .meaning = "Steps between two audits: a second device computes the "
                            "gradient of one EST too, which finds devices that compute "
                            "wrongly.",
                 .high = job_fields::kStepsMax,
                 .zero = "no audits"},
        spec.audit.every_steps);
  visit(JobField{.key = "shard.state",
                 .bits = Bits::kNot,
                 .meaning = "Where the state of the optimizer is: whole on every worker, or each "
                            "part of it on two workers, which takes less memory. auto: on two "
                            "workers if it would not fit otherwise.",
                 .choices = "auto|off|on",
                 .left_out_at_default = true},
        spec.shard.state);
  job_fields::visit_log(spec.log, visit);
}

}  // namespace es

#pragma once
// ModelProgram is a model that a user brings: what a model file contains
// (proto/schema/model.capnp). It says what the model and its loss compute, not how: shapes are
// those of PyTorch (images are [n,c,h,w]), and nothing names a kernel, a memory layout or a
// gradient.
//
// Nodes are listed in the order of execution. Every value is written exactly once: by a node, or as
// an input, a parameter, a state or a constant. docs/reference/model-file.md lists the kinds of
// nodes with their inputs, attributes and shapes.
//
// Plain values. A ModelProgram that was read from a file has been checked (gpu/import/check.h).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace es {

// The number of a value: its index in ModelProgram::values.
using ValueId = std::int32_t;
constexpr ValueId kNoValue = -1;  // an optional input that a node does not have

enum class ValueType { kF32, kI32, kBool, kI64 };

// One extent of a value: `size`, or `size` times the number of samples in the mini-batch.
struct ModelDim {
  std::int64_t size = 1;
  bool per_batch = false;
  bool operator==(const ModelDim&) const = default;
};

struct ModelValue {
  ValueType type = ValueType::kF32;
  std::vector<ModelDim> dims;  // at most 8; a number has none
  bool operator==(const ModelValue&) const = default;
};

// A field of a sample. Its value has the extents [1 per batch, dims of a sample...].
struct ModelInput {
  std::string name;  // a field of the samples, for example "image" or "label"
  ValueId value = kNoValue;
  std::int32_t low = 0, high = 0;  // kI32: every element is in [low, high]
  bool operator==(const ModelInput&) const = default;
};

// The initial value of every element: constant + uniform(-bound, bound), where the numbers follow
// from the seed of the job (gpu/params/initialise.h).
struct ModelInit {
  float constant = 0.0F;
  float bound = 0.0F;
  bool operator==(const ModelInit&) const = default;
};

struct ModelParameter {
  std::string name;                  // as in the state dict
  std::vector<std::string> aliases;  // other names of the same tensor (tied weights)
  ValueId value = kNoValue;
  bool trainable = true;
  std::optional<ModelInit> init = {};  // nothing: the initial values come from a file of weights
  bool operator==(const ModelParameter&) const = default;
};

// A running statistic of a batch norm. It is no value: nodes of the kind batch_norm name it.
struct ModelStatistic {
  std::string name;  // as in the state dict, for example "bn1.running_mean"
  std::int64_t size = 1;
  bool is_variance = false;
  bool operator==(const ModelStatistic&) const = default;
};

// A tensor that the forward pass of a step writes and that every EST keeps for its next step. One
// node of the kind set_state gives it its new content.
struct ModelState {
  std::string name;          // as in the state dict, for example "quantizer.codes"
  std::string dtype;         // there, as in safetensors: "F32", of integers "I64", "I32", ...
  ValueId value = kNoValue;  // the content at the beginning of a step; no extent is per batch
  bool operator==(const ModelState&) const = default;
};

// An entry of the state dict that training does not change, for example "position_ids". No node
// reads it (a node reads a ModelConstant of the same content).
struct ModelBuffer {
  std::string name;
  std::string dtype;  // as in safetensors: "F32", "I64", ...
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;  // little-endian, row-major
  bool operator==(const ModelBuffer&) const = default;
};

// A value that belongs to the model and is never trained.
struct ModelConstant {
  std::string name;
  ValueId value = kNoValue;
  // Bits of fp32 or int32, row-major; a bool is 0 or 1; an int64 is two words, the low one first.
  std::vector<std::uint32_t> words;
  bool operator==(const ModelConstant&) const = default;
};

struct ModelAttribute {
  std::string name;
  std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
               std::vector<double>>
      value;
  bool operator==(const ModelAttribute&) const = default;
};

struct ModelNode {
  std::string kind;             // for example "conv"
  std::uint32_t version = 1;    // the arithmetic of a (kind, version) never changes
  std::string name;             // path of the module, for example "layer1.0.conv1"
  std::vector<ValueId> inputs;  // kNoValue: not given
  std::vector<ValueId> outputs;
  std::vector<ModelAttribute> attributes;
  std::string source;  // "net.py:17", for errors; does not decide the bits
  // The outputs of nodes with the same number other than 0 are not kept for the backward pass, but
  // computed again there. Does not decide the bits.
  std::uint32_t region = 0;
  bool operator==(const ModelNode&) const = default;
};

struct ModelOutput {
  std::string name;  // for example "logits"
  ValueId value = kNoValue;
  bool operator==(const ModelOutput&) const = default;
};

// One number for each global step of the job: index t has that of the update that turns version t
// into t + 1. The numbers of an optimizer that depend on the step alone, such as its learning rate.
// If evaluations lower the learning rate (schedule.kind = "plateau"), those for each step follow
// for the rate that was lowered once, twice ... `reductions` times, which is then the lowest one.
struct ModelNumbers {
  std::string name;  // for example "lr"; for people
  std::vector<float> values;
  std::uint32_t reductions = 0;

  std::size_t steps() const { return values.size() / (std::size_t{reductions} + 1); }
  // REQUIRES: step < steps().
  float at(std::uint64_t step, std::uint32_t lowered) const {
    return values[std::min(lowered, reductions) * steps() + static_cast<std::size_t>(step)];
  }
  bool operator==(const ModelNumbers&) const = default;
};

// The program of an update from a step on, to the step before the next phase.
struct ModelPhase {
  std::uint64_t first_step = 0;
  std::uint32_t program = 0;  // index in ModelUpdate::programs
  bool operator==(const ModelPhase&) const = default;
};

struct ModelUpdate;

// The state of an update that has what evaluations use in place of the parameter, after a step: an
// average of the parameters, or what `eval()` of a schedule-free optimizer makes of them.
constexpr const char* kEvaluatedState = "evaluated";

constexpr std::uint32_t kModelFormat = 1;
constexpr std::uint32_t kModelFormatWithStates = 2;  // of programs that have states
// Of programs that have int64 values, or kinds of nodes that came with them.
constexpr std::uint32_t kModelFormatWithLongs = 3;
constexpr std::uint32_t kModelFormatWithUpdates = 4;   // of programs that have updates
constexpr std::uint32_t kModelFormatWithPrograms = 5;  // of programs that have further programs
// Of programs with numbers that depend on how often evaluations have lowered the learning rate.
constexpr std::uint32_t kModelFormatWithReductions = 6;

struct ModelProgram {
  std::uint32_t format = kModelFormat;
  std::string producer;  // "easyscale 0.1, torch 2.6.0"; does not decide the bits
  std::string name;
  std::vector<ModelValue> values;
  std::vector<ModelInput> inputs;
  std::vector<ModelParameter> parameters;
  std::vector<ModelStatistic> statistics;
  std::vector<ModelState> states;
  std::vector<ModelBuffer> buffers;
  std::vector<ModelConstant> constants;
  std::vector<ModelNode> nodes;
  ValueId loss = kNoValue;           // a number
  std::vector<ModelOutput> outputs;  // what an evaluation returns
  // The captured optimizer; empty: the optimizer of the job is one that the engine has.
  std::vector<ModelNumbers> numbers;
  std::vector<ModelUpdate> updates;
  // Further programs of the model, each with its own values, inputs, constants, nodes, loss and
  // outputs. Its parameters, statistics and states are some of those above, with the same names,
  // types and shapes; its `trainable` says what this program trains. Its inputs have the names,
  // types and ranges of those above, in the same order, and may have other extents. It has no
  // buffers, aliases, initial values, updates, numbers and programs.
  std::vector<ModelProgram> programs;
  // If the programs, this one first, are the losses of one loop: how often each of them makes a
  // global step (loss_turns.h). Every parameter that is trained belongs to one of them, as do the
  // updates of it. Empty: there is one loss, and a mini-batch says which program computes it.
  std::vector<std::uint32_t> every;
  bool operator==(const ModelProgram&) const;
};

// The update of some parameters, which all have one shape: every step computes the next contents of
// a parameter and of its states from these and the gradient. Each program has
//   parameters  "parameter"; "gradient", of the same shape: the mean over all ESTs, after clipping;
//               "state.NAME" for each state, which begins as +0; "number.K", without extents, for
//               each ModelProgram::numbers[K] that it reads
//   outputs     "parameter"; "state.NAME" for each state, the same in all programs of the update
// and no inputs, statistics, states, buffers and loss.
struct ModelUpdate {
  std::vector<std::string> parameters;  // names of the model's parameters
  std::vector<ModelProgram> programs;
  std::vector<ModelPhase> phases;  // ascending; the first one begins at step 0
  bool operator==(const ModelUpdate&) const = default;
};

inline bool ModelProgram::operator==(const ModelProgram&) const = default;

}  // namespace es

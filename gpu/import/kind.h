#pragma once
// A kind of node: everything that the import knows about it is one entry of a table. The files
// kinds_*.cc have the entries of one topic each, as docs/reference/model-file.md lists them.
//
// A new kind is an entry. The check of a program (check.h) uses its inputs, attributes and shape
// rule, the import (import.h) its lowering, and the tables of the reference are written from it.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/import/node_view.h"
#include "proto/base/result.h"

namespace es::gpu {

class Lowering;  // lowering.h

// An input of a kind, by position.
struct Slot {
  const char* name;
  const char* types;      // the allowed types: letters of "fibl" (f32, i32, bool, i64)
  bool optional = false;  // the input may be kNoValue, or missing at the end
  bool kernel = false;    // a convolution's weight, which is stored with its channels last
  // The weight of a linear layer on the image in slot 0. Its columns are stored with their channels
  // last.
  bool of_image = false;
  const char* shape = "";  // for the reference: its extents by their names, such as "[n,c,...]"
};

struct Kind {
  const char* name;
  const char* result;  // for the reference: one sentence that says what the output is
  std::vector<Slot> slots;
  bool variadic = false;   // the last slot stands for one or more inputs
  bool only_loss = false;  // the output is the loss of the model, and no node reads it
  std::vector<AttributeRule> attributes;
  // The shape rule. Returns the types and shapes of the outputs. The inputs have allowed types, and
  // the attributes are in their ranges. Error (usage): what does not fit.
  Result<std::vector<ValueInfo>> (*outputs)(const NodeView&) = nullptr;
  // Returns what the engine cannot do yet of this node, and "" if it can do it all. nullptr: "".
  std::string (*unsupported)(const NodeView&) = nullptr;
  // Appends the operators of the node.
  void (*lower)(Lowering&, const NodeView&) = nullptr;
  // The same where an input or the output has integers of 64 bits. nullptr: the node moves words,
  // so `lower` is called once for the low and once for the high ones.
  void (*lower_long)(Lowering&, const NodeView&) = nullptr;
  std::uint32_t format = kModelFormat;  // of the files that may have this kind
};

// The kind that writes a state: checks and rules of whole programs name it.
constexpr std::string_view kSetState = "set_state";
// The kind that is a term of the loss which is always 0.
constexpr std::string_view kZeroLoss = "zero_loss";

// Returns the entry of a kind; nullptr: there is none.
const Kind* find_kind(std::string_view name);

// Whether a kind is one of elementwise_kinds(): an element of its output depends only on those at
// its place in the inputs, which are broadcast.
bool is_element_wise_kind(std::string_view name);

// The names of all kinds, in ascending order.
std::vector<std::string_view> kind_names();

// The entries of each file.
std::vector<Kind> attention_kinds();
std::vector<Kind> conv_kinds();
std::vector<Kind> detection_kinds();
std::vector<Kind> elementwise_kinds();
std::vector<Kind> integer_kinds();
std::vector<Kind> loss_kinds();
std::vector<Kind> move_kinds();
std::vector<Kind> norm_kinds();
std::vector<Kind> padding_kinds();
std::vector<Kind> pool_kinds();
std::vector<Kind> product_kinds();
std::vector<Kind> random_kinds();
std::vector<Kind> recurrent_kinds();
std::vector<Kind> reduction_kinds();
std::vector<Kind> resize_kinds();
std::vector<Kind> row_kinds();
std::vector<Kind> state_kinds();

// A section of the reference and the kinds in it.
struct KindTopic {
  const char* title;
  std::vector<Kind> kinds;
};
// All topics, in the order of the reference. Called for the reference and by find_kind() only.
std::vector<KindTopic> kind_topics();

using Outputs = Result<std::vector<ValueInfo>>;

// Returns the one output of a shape rule.
inline Outputs one_output(ValueType type, const TensorShape& shape) {
  return std::vector<ValueInfo>{{type, shape}};
}
// The shape rule of a kind whose output has the type and shape of its first input.
Outputs same_as_input(const NodeView& node);

}  // namespace es::gpu

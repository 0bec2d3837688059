#include "gpu/import/token_program.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "gpu/import/check.h"
#include "gpu/import/kind.h"
#include "proto/base/text.h"

namespace es::gpu {
namespace {

using ModelDims = std::vector<ModelDim>;
constexpr int kNoAxis = -1;

// What a kind of node does with the token axis.
enum class TokenRule {
  kElements,  // element by element; operands are broadcast
  kRows,      // the last axis is computed from the last axis of slot 0
  kLookup,    // rows of slot 0 that the integers in slot 1 select
  kAxes,      // works along the axes that an attribute names
  kNorm,      // works along the last axes, as many as its attribute says
  kReshape,
  kPermute,
  kAttention,
};

struct TokenKind {
  std::string_view kind;
  TokenRule rule;
};

// Those of the kinds that are not computed element by element.
constexpr TokenKind kTokenKinds[] = {
    {"embedding", TokenRule::kLookup},    {"take_rows", TokenRule::kLookup},
    {"linear", TokenRule::kRows},         {"matmul", TokenRule::kRows},
    {"layer_norm", TokenRule::kNorm},     {"rms_norm", TokenRule::kNorm},
    {"reshape", TokenRule::kReshape},     {"permute", TokenRule::kPermute},
    {"attention", TokenRule::kAttention}, {"softmax", TokenRule::kAxes},
    {"log_softmax", TokenRule::kAxes},    {"slice", TokenRule::kAxes},
    {"concat", TokenRule::kAxes},         {"roll", TokenRule::kAxes},
    {"flip", TokenRule::kAxes},           {"sum", TokenRule::kAxes},
    {"mean", TokenRule::kAxes},           {"amax", TokenRule::kAxes},
    {"amin", TokenRule::kAxes},           {"expand", TokenRule::kElements},
};

const TokenRule* rule_of(std::string_view kind) {
  static constexpr TokenRule kElements = TokenRule::kElements;
  const auto* const found = std::ranges::find(kTokenKinds, kind, &TokenKind::kind);
  if (found != std::end(kTokenKinds)) return &found->rule;
  return is_element_wise_kind(kind) ? &kElements : nullptr;
}

// Returns the attribute, or `fallback` if the node does not have it.
template <class Value>
Value attribute(const ModelNode& node, std::string_view name, Value fallback) {
  for (const ModelAttribute& a : node.attributes)
    if (a.name == name) return std::get<Value>(a.value);
  return fallback;
}

class TokenWriter {
 public:
  TokenWriter(const ModelProgram& program, std::size_t ids, std::size_t logits)
      : from_(program), ids_(ids), logits_(logits), to_(program) {
    axis_.resize(program.values.size(), kNoAxis);
  }

  Result<TokenProgram> run() {
    const ModelValue& ids = from_.values[id_at(from_.inputs[ids_].value)];
    length_ = ids.dims[1].size;
    if (length_ == 1) return usage_error("a text has one token");
    if (!from_.states.empty()) return usage_error("the model keeps states");
    begin();
    const std::vector<bool> live = nodes_of_logits();
    for (std::size_t n = 0; n < from_.nodes.size(); ++n)
      if (live[n]) ES_RETURN_IF_ERROR(write(n));
    ES_RETURN_IF_ERROR(finish());
    return std::move(made_);
  }

 private:
  static std::size_t id_at(ValueId id) { return static_cast<std::size_t>(id); }
  const ModelDims& dims(ValueId id) const { return to_.values[id_at(id)].dims; }
  // The extents in the model itself.
  const ModelDims& whole_dims(ValueId id) const { return from_.values[id_at(id)].dims; }
  int rank(ValueId id) const { return static_cast<int>(dims(id).size()); }
  int axis(ValueId id) const { return axis_[id_at(id)]; }
  bool has_tokens(ValueId id) const { return id != kNoValue && axis(id) != kNoAxis; }

  void begin() {
    const ModelInput token = from_.inputs[ids_];
    to_.inputs = {token};
    to_.nodes.clear();
    to_.outputs.clear();
    set_token_axis(token.value, 1);
    place_ = add_value(ValueType::kI32, {{1, true}});
    to_.inputs.push_back({.name = "place",
                          .value = place_,
                          .low = 0,
                          .high = static_cast<std::int32_t>(length_) - 1});
  }

  // Marks the nodes on which the logits depend, in reverse, as readers come after what they read.
  std::vector<bool> nodes_of_logits() const {
    std::vector<bool> needed(from_.values.size(), false), live(from_.nodes.size(), false);
    needed[id_at(from_.outputs[logits_].value)] = true;
    for (std::size_t n = from_.nodes.size(); n-- > 0;) {
      for (const ValueId id : from_.nodes[n].outputs) live[n] = live[n] || needed[id_at(id)];
      if (!live[n]) continue;
      for (const ValueId id : from_.nodes[n].inputs)
        if (id != kNoValue) needed[id_at(id)] = true;
    }
    return live;
  }

  // --- Nodes.

  Status write(std::size_t index) {
    const ModelNode& node = from_.nodes[index];
    node_ = &node;
    index_ = index;
    if (node.kind == "uniform" || node.kind == "normal") return unknown("draws random numbers");
    for (const ValueId id : node.inputs)
      for (std::size_t i = 0; i < from_.inputs.size(); ++i)
        if (i != ids_ && from_.inputs[i].value == id)
          return unknown("reads the input \"" + escaped(from_.inputs[i].name) + "\"");
    // What depends on parameters and constants only is the same for every token.
    if (std::ranges::none_of(node.inputs, [&](ValueId id) { return has_tokens(id); })) {
      to_.nodes.push_back(node);
      return {};
    }
    const TokenRule* const rule = rule_of(node.kind);
    if (rule == nullptr || node.outputs.size() != 1) return unknown("may mix tokens");
    switch (*rule) {
      case TokenRule::kElements:
        return elements();
      case TokenRule::kRows:
        return rows();
      case TokenRule::kLookup:
        return lookup();
      case TokenRule::kAxes:
        return axes();
      case TokenRule::kNorm:
        return norm();
      case TokenRule::kReshape:
        return reshape();
      case TokenRule::kPermute:
        return permute();
      case TokenRule::kAttention:
        return attention();
    }
    return unknown("may mix tokens");
  }

  Error unknown(const std::string& why) const {
    const std::string name = node_->name.empty() ? "" : " \"" + escaped(node_->name) + "\"";
    return usage_error("nodes[" + std::to_string(index_) + "] (" + node_->kind + name + ") " + why);
  }

  // Appends the node of the model; its output has the token axis at `axis`.
  Status keep(int axis, std::vector<ValueId> inputs) {
    ModelNode node = *node_;
    node.inputs = std::move(inputs);
    set_token_axis(node.outputs[0], axis);
    to_.nodes.push_back(std::move(node));
    return {};
  }
  Status keep(int axis) { return keep(axis, node_->inputs); }

  void set_token_axis(ValueId id, int axis) {
    axis_[id_at(id)] = axis;
    to_.values[id_at(id)].dims[static_cast<std::size_t>(axis)].size = 1;
  }

  // Whether only slot 0 has tokens.
  bool only_first() const {
    return has_tokens(node_->inputs[0]) &&
           std::none_of(node_->inputs.begin() + 1, node_->inputs.end(),
                        [&](ValueId id) { return has_tokens(id); });
  }

  Status elements() {
    const ValueId y = node_->outputs[0];
    // Operands are aligned at their last axes.
    int from_end = kNoAxis;
    for (const ValueId id : node_->inputs) {
      if (!has_tokens(id)) continue;
      const int own = rank(id) - axis(id);
      if (from_end != kNoAxis && from_end != own) return unknown("combines different tokens");
      from_end = own;
    }
    std::vector<ValueId> inputs;
    for (const ValueId id : node_->inputs) {
      if (has_tokens(id) || id == kNoValue || rank(id) < from_end ||
          dims(id)[static_cast<std::size_t>(rank(id) - from_end)].size == 1) {
        inputs.push_back(id);
        continue;
      }
      const auto row = row_at_place(id, from_end, rank(y));
      if (!row) return row.error();
      inputs.push_back(*row);
    }
    return keep(rank(y) - from_end, std::move(inputs));
  }

  // Returns the part of a value at the place of the token, as an operand of values of the rank
  // `to_rank`. Its token axis has the distance `from_end` from the end.
  Result<ValueId> row_at_place(ValueId id, int from_end, int to_rank) {
    const auto known = rows_.find({id, from_end, to_rank});
    if (known != rows_.end()) return known->second;
    const int own = rank(id), along = own - from_end;
    const bool per_batch = std::ranges::any_of(dims(id), &ModelDim::per_batch);
    // The result has the samples in front, so the value may have no extent there.
    const bool room = to_rank > own || dims(id)[0].size == 1 || along == 0;
    if (per_batch || !room || to_rank == from_end) return unknown("has an operand of another form");
    ValueId table = id;
    ModelDims rest;
    std::vector<std::int64_t> order{along};
    for (int i = 0; i < own; ++i)
      if (i != along) {
        order.push_back(i);
        rest.push_back(dims(id)[static_cast<std::size_t>(i)]);
      }
    const ValueType type = to_.values[id_at(id)].type;
    if (along != 0) {
      ModelDims moved = rest;
      moved.insert(moved.begin(), {.size = length_});
      table = node("permute", {table}, type, moved, {{"order", order}});
    }
    ModelDims taken = rest;
    taken.insert(taken.begin(), {1, true});
    const ValueId row = node("take_rows", {table, place_}, type, taken);
    ModelDims to(static_cast<std::size_t>(to_rank), ModelDim{.size = 1});
    const auto last = to.end() - own;
    for (int i = 0; i < own; ++i)
      if (i != along) last[i] = dims(id)[static_cast<std::size_t>(i)];
    to[0] = {1, true};
    const ValueId found = node("reshape", {row}, type, to);
    rows_[{id, from_end, to_rank}] = found;
    return found;
  }

  Status rows() {
    const ValueId x = node_->inputs[0];
    if (!only_first() || axis(x) == rank(x) - 1) return unknown("adds over tokens");
    // A matrix for each place would have to be the one of the token.
    const bool many = node_->kind == "matmul" && rank(node_->inputs[1]) > 2;
    if (many && axis(x) != rank(x) - 2) return unknown("has a matrix for each token");
    return keep(rank(node_->outputs[0]) - (rank(x) - axis(x)));
  }

  Status lookup() {
    const ValueId x = node_->inputs[0], ids = node_->inputs[1];
    if (has_tokens(x)) return unknown("selects tokens");
    return keep(axis(ids));
  }

  Status axes() {
    const ValueId x = node_->inputs[0];
    std::vector<std::int64_t> along = attribute<std::vector<std::int64_t>>(*node_, "axes", {});
    const std::int64_t one = attribute<std::int64_t>(*node_, "axis", -1);
    if (one >= 0) along.push_back(one);
    for (const ValueId id : node_->inputs)
      if (axis(id) != axis(x)) return unknown("has inputs with and without tokens");
    if (node_->kind == "slice" && whole_dims(x) == whole_dims(node_->outputs[0])) return all_of(x);
    if (axis(x) == kNoAxis || std::ranges::find(along, axis(x)) != along.end())
      return unknown("mixes tokens");
    int at = axis(x);
    if (rank(node_->outputs[0]) < rank(x))  // a reduction that drops its axes
      at -= static_cast<int>(std::ranges::count_if(along, [&](std::int64_t i) { return i < at; }));
    return keep(at);
  }

  // A slice that leaves nothing out.
  Status all_of(ValueId x) {
    ModelNode node = *node_;
    node.kind = "reshape";
    node.attributes.clear();
    set_token_axis(node.outputs[0], axis(x));
    to_.nodes.push_back(std::move(node));
    return {};
  }

  Status norm() {
    const ValueId x = node_->inputs[0];
    const auto last = static_cast<int>(attribute<std::int64_t>(*node_, "axes", 1));
    if (!only_first() || axis(x) >= rank(x) - last) return unknown("mixes tokens");
    return keep(axis(x));
  }

  // The token axis stays one if the elements of a token stay together. It may be joined with that
  // of the samples, as in a layer that reads its input as one matrix.
  Status reshape() {
    const ValueId x = node_->inputs[0], y = node_->outputs[0];
    const ModelDims &before = whole_dims(x), &after = whole_dims(y);
    const std::optional<Count> samples = samples_before(before, axis(x));
    for (int i = 0; i < rank(y); ++i) {
      const ModelDim& dim = after[static_cast<std::size_t>(i)];
      if (dim.size != length_) continue;
      const bool same = dim == before[static_cast<std::size_t>(axis(x))] &&
                        count_before(after, i) == count_before(before, axis(x));
      if (same || (samples && samples == samples_before(after, i))) return keep(i);
    }
    return unknown("joins tokens");
  }

  using Count = std::pair<std::int64_t, int>;  // elements, and how often times the samples
  static Count count_before(const ModelDims& dims, int axis) {
    Count count{1, 0};
    for (int i = 0; i < axis; ++i) {
      const ModelDim& dim = dims[static_cast<std::size_t>(i)];
      count = {count.first * dim.size, count.second + (dim.per_batch ? 1 : 0)};
    }
    return count;
  }
  // What stands before the axes of samples and tokens, which may be one axis. Nothing: the axis in
  // front of the tokens is another one.
  static std::optional<Count> samples_before(const ModelDims& dims, int axis) {
    if (dims[static_cast<std::size_t>(axis)].per_batch) return count_before(dims, axis);
    if (axis == 0 || dims[static_cast<std::size_t>(axis) - 1] != ModelDim{1, true}) return {};
    return count_before(dims, axis - 1);
  }

  Status permute() {
    const auto order = attribute<std::vector<std::int64_t>>(*node_, "order", {});
    const auto at = std::ranges::find(order, axis(node_->inputs[0])) - order.begin();
    return keep(static_cast<int>(at));
  }

  // --- Attention.

  Status attention() {
    const std::vector<ValueId>& in = node_->inputs;
    const bool plain =
        std::none_of(in.begin() + 3, in.end(), [](ValueId id) { return id != kNoValue; });
    if (!attribute(*node_, "causal", false)) return unknown("is not causal");
    if (!plain) return unknown("has a mask, a bias or a length");
    for (std::size_t i = 0; i < 3; ++i)
      if (!has_tokens(in[i]) || axis(in[i]) != 2 || dims(in[i])[0] != ModelDim{1, true})
        return unknown("has operands of another form");
    const ValueId k = with_cache(in[1]), v = with_cache(in[2]);
    ModelNode node = *node_;
    node.inputs = {in[0], k, v, seen()};
    node.attributes = {{"scale", attribute(*node_, "scale", 1.0)}};
    set_token_axis(node.outputs[0], 2);
    to_.nodes.push_back(std::move(node));
    return {};
  }

  // The cached values, and the one of the token at its place.
  ValueId with_cache(ValueId value) {
    const auto known = cached_.find(value);
    if (known != cached_.end()) return known->second;
    const std::int64_t heads = dims(value)[1].size, width = dims(value)[3].size;
    const ValueId rows =
        add_value(ValueType::kF32, {{1, true}, {.size = heads * length_}, {.size = width}});
    const ModelDims all{{1, true}, {.size = heads}, {.size = length_}, {.size = width}};
    to_.inputs.push_back({.name = "cache." + std::to_string(made_.caches.size()), .value = rows});
    made_.caches.push_back({heads, width});
    sources_.push_back(value);
    const ValueId before = node("reshape", {rows}, ValueType::kF32, all);
    if (own_ == kNoValue) own_ = compare("eq", {1, 1, length_, 1});
    return cached_[value] = node("where", {own_, value, before}, ValueType::kF32, all);
  }

  ValueId seen() {
    if (seen_ == kNoValue) seen_ = compare("le", {1, 1, 1, length_});
    return seen_;
  }

  // Compares every place with that of the token.
  ValueId compare(const char* kind, const std::vector<std::int64_t>& extents) {
    ModelDims places, all;
    for (const std::int64_t extent : extents) places.push_back({.size = extent});
    all = places;
    all[0] = {1, true};
    std::vector<std::uint32_t> words;
    for (std::int64_t i = 0; i < length_; ++i) words.push_back(static_cast<std::uint32_t>(i));
    const ValueId numbers = add_value(ValueType::kI32, places);
    to_.constants.push_back(
        {.name = std::string("places.") + kind, .value = numbers, .words = std::move(words)});
    const ModelDims one{{1, true}, {.size = 1}, {.size = 1}, {.size = 1}};
    const ValueId own = node("reshape", {place_}, ValueType::kI32, one);
    return node(kind, {numbers, own}, ValueType::kBool, all);
  }

  // --- The lists of the program.

  ValueId add_value(ValueType type, ModelDims dims) {
    to_.values.push_back({.type = type, .dims = std::move(dims)});
    axis_.push_back(kNoAxis);
    return static_cast<ValueId>(to_.values.size() - 1);
  }

  ValueId node(const char* kind, std::vector<ValueId> inputs, ValueType type, ModelDims dims,
               std::vector<ModelAttribute> attributes = {}) {
    const ValueId y = add_value(type, std::move(dims));
    to_.nodes.push_back({.kind = kind,
                         .name = "cache",
                         .inputs = std::move(inputs),
                         .outputs = {y},
                         .attributes = std::move(attributes),
                         .source = {}});
    return y;
  }

  Status finish() {
    const ModelOutput& logits = from_.outputs[logits_];
    if (axis(logits.value) != 1 || rank(logits.value) != 3 ||
        dims(logits.value)[0] != ModelDim{1, true})
      return usage_error("the output \"" + escaped(logits.name) + "\" has no logits of tokens");
    if (made_.caches.empty()) return usage_error("the model has no attention");
    made_.whole = from_;
    made_.whole_outputs = from_.outputs.size();
    to_.outputs.push_back(logits);
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const ModelOutput output{.name = "cache." + std::to_string(i), .value = sources_[i]};
      made_.whole.outputs.push_back(output);
      to_.outputs.push_back(output);
    }
    // A program has a loss. This one is not read.
    to_.loss = node("mean", {logits.value}, ValueType::kF32, {},
                    {{"axes", std::vector<std::int64_t>{0, 1, 2}}});
    made_.length = length_;
    made_.token = std::move(to_);
    ES_RETURN_IF_ERROR(check_program(made_.whole));
    return check_program(made_.token);
  }

  const ModelProgram& from_;
  const std::size_t ids_, logits_;
  ModelProgram to_;
  TokenProgram made_;
  std::int64_t length_ = 0;
  const ModelNode* node_ = nullptr;  // the node of the model that is being written
  std::size_t index_ = 0;
  std::vector<int> axis_;  // [value] the token axis; kNoAxis: the same for every token
  ValueId place_ = kNoValue;
  ValueId own_ = kNoValue;   // whether a place is that of the token; after its first use
  ValueId seen_ = kNoValue;  // whether the token attends to a place; after its first use
  std::map<std::tuple<ValueId, int, int>, ValueId> rows_;  // row_at_place()
  std::map<ValueId, ValueId> cached_;                      // with_cache()
  std::vector<ValueId> sources_;                           // [cached value] that of the model
};

}  // namespace

Result<TokenProgram> token_program(const ModelProgram& program, std::size_t ids,
                                   std::size_t logits) {
  return TokenWriter(program, ids, logits).run();
}

}  // namespace es::gpu

// Checks of values: those of a replica before it is installed, the words of a mini-batch against
// the fields of its samples, and the faults of a step.
#include <algorithm>
#include <bit>
#include <cmath>

#include "gpu/engine/engine.h"
#include "gpu/graph/ops/operator.h"

namespace es::gpu {
namespace {

// Returns whether the field allows this word.
bool fits(const SampleField& field, float word) {
  const auto value = std::bit_cast<std::int32_t>(word);
  return field.type == FieldType::kI32 ? field.low <= value && value <= field.high
                                       : std::isfinite(word);
}

// All statistics and real states must be finite, and no variance may be negative, because its
// square root would be NaN.
Status check_statistics(const ParamTable& table, const EstContext& context,
                        const std::string& where) {
  for (const StatInfo& s : table.stats()) {
    if (s.has_integers()) continue;
    for (std::int64_t i = s.offset; i < s.offset + s.count; ++i) {
      const float value = context.stats[static_cast<std::size_t>(i)];
      if (std::isfinite(value) && !(s.is_variance && value < 0.0F)) continue;
      return failure(where + (s.is_state() ? "state " : "statistic ") + s.name + " of EST " +
                     std::to_string(context.rank) + " = " + std::to_string(value) +
                     ": allowed is a finite number" + (s.is_variance ? " of at least 0" : ""));
    }
  }
  return {};
}

}  // namespace

Status Engine::check_finite(const Replica& replica) const {
  const std::string where = "version " + std::to_string(replica.version) + ": ";
  std::string bad = first_non_finite(table_.params(), replica.params.data(), kernels_);
  if (!bad.empty()) return failure(where + "parameter " + bad + " is not finite");
  for (const HeldArray& moment : replica.moments)
    for (const FloatRange& range : moment.held()) {
      const ParamRange params = params_of(table_, range);
      bad = first_non_finite(table_.trained().subspan(params.begin, params.size()), moment.data(),
                             kernels_);
      if (!bad.empty())
        return failure(where + "the optimizer's moment of " + bad + " is not finite");
    }
  for (const EstContext& c : replica.contexts)
    ES_RETURN_IF_ERROR(check_statistics(table_, c, where));
  return {};
}

Status Engine::check_contexts(const std::vector<EstContext>& contexts, Version version) const {
  if (contexts.size() != spec_.max_p)
    return failure(std::to_string(contexts.size()) +
                   " EST contexts: allowed is max_p = " + std::to_string(spec_.max_p));
  for (VirtualRank rank = 0; rank < spec_.max_p; ++rank) {
    const EstContext& c = contexts[rank];
    const bool fits = c.rank == rank && c.version == version &&
                      static_cast<std::int64_t>(c.stats.size()) == table_.stat_floats();
    if (!fits)
      return failure("EST context " + std::to_string(rank) + " is of rank " +
                     std::to_string(c.rank) + ", version " + std::to_string(c.version) + ", " +
                     std::to_string(c.stats.size()) + " statistics: allowed is rank " +
                     std::to_string(rank) + ", version " + std::to_string(version) + ", " +
                     std::to_string(table_.stat_floats()) + " statistics");
  }
  return {};
}

Error Engine::WrongValue::error() const {
  const std::string where =
      "field " + field->name + " of sample " + std::to_string(sample()) + " in the batch: ";
  if (field->type == FieldType::kF32)
    return usage_error(where + "value " + std::to_string(word) + ": allowed is a finite number");
  return usage_error(where + "value " + std::to_string(std::bit_cast<std::int32_t>(word)) +
                     ": allowed is " + std::to_string(field->low) + " to " +
                     std::to_string(field->high));
}

std::optional<Engine::WrongValue> Engine::find_wrong(const Graph& graph, const Batch& batch,
                                                     Values values) const {
  const float* words = batch.words;
  for (const SampleField& field : graph.layout.fields) {
    const std::int64_t count = field.words() * graph.batch;
    // Integers are always compared with their range, because an index outside of it would read
    // memory that does not belong to its table. For floats the fast kernel answers first, and the
    // slow search runs only if it has found something.
    const bool suspicious = field.type == FieldType::kI32 ||
                            (values == Values::kAll && kernels_.any_non_finite(count, words));
    if (suspicious) {
      const float* bad =
          std::find_if(words, words + count, [&](float word) { return !fits(field, word); });
      if (bad != words + count) return WrongValue{&field, bad - words, *bad};
    }
    words += count;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Engine::wrong_sample(const Batch& batch) const {
  const auto wrong = find_wrong(batch);
  return wrong ? std::optional(wrong->sample()) : std::nullopt;
}

Status Engine::check_fields(const Batch& batch) {
  // A serial names the contents of a batch; 0 stands for unknown contents. prepare() has usually
  // checked the batch while the device computed the step before.
  if (batch.serial != 0 && batch.serial == checked_) return {};
  const auto wrong = find_wrong(batch);
  if (!wrong) checked_ = batch.serial;
  return wrong ? Status(wrong->error()) : Status();
}

Error Engine::fault_error(VirtualRank rank, const Fault& fault) const {
  const std::string where =
      "EST " + std::to_string(rank) + ", step " + std::to_string(replica_.version) + ": ";
  if (fault.op == nullptr) return failure(where + "the loss is not finite");
  const std::string op = fault.op->name + " (" + op_name(fault.op->kind) + ")";
  if (fault.param == kNoParam)
    return failure(where +
                   "a value that is not finite; the first operator with such an output: " + op);
  return failure(where + "the gradient of " + table_[fault.param].name +
                 " is not finite; operator: " + op);
}

}  // namespace es::gpu

#include "gpu/graph/update_code.h"

#include <algorithm>
#include <utility>

#include "gpu/graph/fuse.h"
#include "gpu/graph/ops/operator.h"

namespace es::gpu {
namespace {

// The inputs of the code while it is written: those of CapturedCode::inputs, and behind them what
// becomes a constant that changes from step to step.
constexpr std::int32_t kGradient = 0, kParameter = 1, kMoment = 2, kScale = 1 << 20,
                       kNumber = kScale + 1;

bool all_equal(const std::vector<float>& words) {
  return std::ranges::all_of(words, [&](float word) { return word == words[0]; });
}

class UpdateWriter {
 public:
  UpdateWriter(const UpdateGraph& update, std::int64_t count, std::span<const StatePlace> places)
      : graph_(update.graph),
        update_(update),
        count_(count),
        places_(places),
        terms_(graph_.tensors.size()) {}

  std::optional<WrittenCode> write() {
    for (const Constant& constant : graph_.constants)
      if (all_equal(constant.words)) set(constant.tensor, writer_.constant(constant.words[0]));
    for (const Op& op : needed_ops())
      if (!write(op)) return std::nullopt;
    std::vector<Term> results;
    for (const TensorId output : graph_.outputs) {
      if (!has(output)) return std::nullopt;
      results.push_back(at(output));
    }
    if (results.size() > kProgramOutputs) return std::nullopt;
    return writer_.finish(results);
  }

 private:
  // The operators on which the outputs depend, in their order. The loss is no part of the update.
  std::vector<Op> needed_ops() const {
    const std::vector<Op>& ops = graph_.ops;
    std::vector<bool> needed(terms_.size(), false);
    for (const TensorId t : graph_.outputs) needed[static_cast<std::size_t>(t)] = true;
    std::vector<Op> found;
    for (std::size_t i = ops.size(); i-- > 0;) {
      if (std::ranges::none_of(ops[i].out,
                               [&](TensorId t) { return needed[static_cast<std::size_t>(t)]; }))
        continue;
      for (const TensorId t : ops[i].in) needed[static_cast<std::size_t>(t)] = true;
      found.push_back(ops[i]);
    }
    std::ranges::reverse(found);
    return found;
  }

  bool write(const Op& op) {
    if (op.kind == OpKind::kParameter) return write_input(op);
    for (const TensorId t : op.in)
      if (!has(t)) return false;
    if (op_def(op.kind).is_view) {
      set(op.out[0], at(op.in[0]));
      return true;
    }
    const std::optional<Op> program = as_program(graph_, op);
    return program && write_program(*program);
  }

  bool write_input(const Op& op) {
    const UpdateInput& input = update_.inputs[static_cast<std::size_t>(op.weight)];
    const auto number = static_cast<std::int32_t>(input.index);
    switch (input.kind) {
      case UpdateInput::Kind::kGradient:
        set(op.out[0], writer_.input(kGradient) * writer_.input(kScale));
        return true;
      case UpdateInput::Kind::kParameter:
        set(op.out[0], writer_.input(kParameter));
        return true;
      case UpdateInput::Kind::kNumber:
        set(op.out[0], writer_.input(kNumber + number));
        return true;
      case UpdateInput::Kind::kState: {
        const StatePlace& place = places_[input.index];
        if (place.count != count_ || place.offset != 0) return false;
        set(op.out[0], writer_.input(kMoment + static_cast<std::int32_t>(place.array)));
        return true;
      }
    }
    return false;
  }

  // An operand must be the same element, or one number for all elements.
  bool write_program(const Op& op) {
    std::vector<Term> inputs;
    for (std::size_t k = 0; k < op.in.size(); ++k) {
      const bool is_number = graph_.shape(op.in[k]).count() == 1;
      if (!is_number && !reads_in_order(op.program->space, k)) return false;
      inputs.push_back(at(op.in[k]));
    }
    const std::vector<Term> results = writer_.append(op.program->code, inputs);
    for (std::size_t k = 0; k < op.out.size(); ++k) set(op.out[k], results[k]);
    return true;
  }

  bool has(TensorId t) const { return terms_[static_cast<std::size_t>(t)].has_value(); }
  Term at(TensorId t) const { return *terms_[static_cast<std::size_t>(t)]; }
  void set(TensorId t, Term term) { terms_[static_cast<std::size_t>(t)] = term; }

  const Graph& graph_;
  const UpdateGraph& update_;
  std::int64_t count_;
  std::span<const StatePlace> places_;
  CodeWriter writer_;
  std::vector<std::optional<Term>> terms_;  // [tensor]
};

// Turns the inputs that are numbers of the step into constants, which a kernel receives by value.
std::optional<CapturedCode> with_constants(const WrittenCode& written) {
  CapturedCode result{.code = written.code, .inputs = {}, .moments = {}, .numbers = {}};
  ElementCode& code = result.code;
  result.first_number = code.constants;
  std::vector<std::uint8_t> names;  // [input of `written`]: its new name
  const auto add_constant = [&] {
    return static_cast<std::uint8_t>(kFirstConstant + code.constants++);
  };
  for (const std::int32_t input : written.inputs) {
    if (input >= kScale && code.constants == kProgramConstants) return std::nullopt;
    if (input < kScale) {
      names.push_back(static_cast<std::uint8_t>(kFirstInput + std::ssize(result.inputs)));
      result.inputs.push_back(input);
    } else if (input == kScale) {
      result.scale = code.constants;
      result.first_number = code.constants + 1;
      names.push_back(add_constant());
    } else {
      result.numbers.push_back(static_cast<std::size_t>(input - kNumber));
      names.push_back(add_constant());
    }
  }
  code.inputs = static_cast<std::int32_t>(result.inputs.size());
  for (std::int32_t i = 0; i < code.instructions; ++i) {
    Instruction& step = code.instruction[static_cast<std::size_t>(i)];
    for (std::uint8_t* name : {&step.a, &step.b, &step.c, &step.d})
      if (*name >= kFirstInput && *name < kFirstConstant) *name = names[*name - kFirstInput];
  }
  const std::optional<ElementCode> few = with_few_registers(code);
  if (!few) return std::nullopt;
  code = *few;
  return result;
}

}  // namespace

std::optional<CapturedCode> element_code(const UpdateGraph& update, std::int64_t count,
                                         std::span<const StatePlace> places) {
  const std::optional<WrittenCode> written = UpdateWriter(update, count, places).write();
  if (!written) return std::nullopt;
  std::optional<CapturedCode> code = with_constants(*written);
  if (!code) return std::nullopt;
  for (const StatePlace& place : places) code->moments.push_back(place.array);
  return code;
}

}  // namespace es::gpu

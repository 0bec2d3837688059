// Joins element-wise programs that follow each other (fuse.h).
#include <algorithm>
#include <utility>

#include "gpu/graph/emit.h"
#include "gpu/graph/fuse.h"
#include "gpu/graph/uses.h"

namespace es::gpu {
namespace {

using Sizes = std::vector<std::int64_t>;

// Returns dimensions that divide those of both spaces, outermost first; nothing if there are none.
// [6,4] and [2,12], for example, have [2,3,4]. It goes from the innermost dimension to the
// outermost one and cuts off the smaller remainder each time, which must divide the larger one.
std::optional<Sizes> common_sizes(const ElementSpace& a, const ElementSpace& b) {
  Sizes sizes;
  std::int32_t i = a.rank - 1, j = b.rank - 1;
  std::int64_t left = 1, right = 1;  // what remains of the current dimensions
  for (;;) {
    while (left == 1 && i >= 0) left = a.size[static_cast<std::size_t>(i--)];
    while (right == 1 && j >= 0) right = b.size[static_cast<std::size_t>(j--)];
    const std::int64_t size = std::min(left, right);
    if (left % size != 0 || right % size != 0) return std::nullopt;
    // A remainder of 1 has been replaced by the next dimension where there is one, so a space is
    // used up. If something of the other one remains, the test below fails.
    if (size == 1) break;
    sizes.push_back(size);
    left /= size;
    right /= size;
  }
  if (left != right || sizes.size() > kProgramRank) return std::nullopt;
  if (sizes.empty()) sizes.push_back(1);
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

// Returns the strides of input k over the dimensions `sizes`, which divide those of the space.
std::array<std::int64_t, kProgramRank> divided_strides(const ElementSpace& space, std::size_t k,
                                                       const Sizes& sizes) {
  std::array<std::int64_t, kProgramRank> strides = {};
  std::int32_t d = space.rank - 1;
  std::int64_t inside = 1;  // the part of dimension d that is done
  for (std::size_t i = sizes.size(); i-- > 0;) {
    while (d > 0 && inside == space.size[static_cast<std::size_t>(d)]) {
      inside = 1;
      --d;
    }
    strides[i] = space.stride[k][static_cast<std::size_t>(d)] * inside;
    inside *= sizes[i];
  }
  return strides;
}

// Returns whether an input with these strides is read in the order of the space. Only such an input
// can be replaced by a value that the same element of the space has just computed.
bool is_dense(const std::array<std::int64_t, kProgramRank>& strides, const Sizes& sizes) {
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0; stride *= sizes[i])
    if (sizes[i] != 1 && strides[i] != stride) return false;
  return true;
}

// The stages of a chain that are instructions of programs with the same bits; nothing for the
// others, such as a dropout, whose decisions depend on the number of the element.
std::optional<Term> stage_term(const ChainStep& step, Term v, Term operand) {
  switch (step.kind) {
    case ChainKind::kScale:
      return v * step.factor;
    case ChainKind::kAdd:
      return v + operand;
    case ChainKind::kMul:
      return v * operand;
    case ChainKind::kRelu:
      return write_function(Function::kRelu, {}, {&v, 1}, false);
    case ChainKind::kLeakyRelu:
      return write_function(Function::kLeakyRelu, {.a = step.factor}, {&v, 1}, false);
    case ChainKind::kGelu:
      return emit(ElementOp::kGelu, v);
    case ChainKind::kTanh:
      return emit(ElementOp::kTanh, v);
    case ChainKind::kSigmoid:
      return emit(ElementOp::kSigmoid, v);
    case ChainKind::kGeluGrad:
      return v * emit(ElementOp::kGeluGrad, operand);
    case ChainKind::kTanhGrad:
      // v is dy here, and the operand is the result y of the function.
      return write_gradient(Function::kTanh, {}, 0, v, {}, operand);
    case ChainKind::kSigmoidGrad:
      return write_gradient(Function::kSigmoid, {}, 0, v, {}, operand);
    case ChainKind::kRoundBf16:
      return emit(ElementOp::kRoundBf16, v);
    default:
      return std::nullopt;
  }
}

class ProgramFusion {
 public:
  explicit ProgramFusion(Program program)
      : program_(std::move(program)),
        uses_(program_.graph),
        merged_(program_.graph.ops.size(), false) {}

  Program run() {
    for (std::size_t i = 0; i < ops().size(); ++i)
      // Each merge changes the inputs, so the search begins again until none can be merged.
      while (absorb_one(i)) continue;
    drop_marked(program_, merged_);
    return std::move(program_);
  }

 private:
  std::vector<Op>& ops() { return program_.graph.ops; }

  bool absorb_one(std::size_t index) {
    const std::vector<TensorId> in = ops()[index].in;
    if (ops()[index].kind != OpKind::kProgram && ops()[index].kind != OpKind::kChain) return false;
    return std::any_of(in.begin(), in.end(), [&](TensorId t) { return absorb(t, index); });
  }

  // Merges the operator that computes tensor t, possibly behind views, into operator `index`.
  bool absorb(TensorId t, std::size_t index) {
    std::vector<std::size_t> views;
    TensorId source = t;
    const auto writer_of = [&](TensorId x) { return Uses::at(uses_.writer, x); };
    while (writer_of(source) >= 0 && (source == t || Uses::at(uses_.reads, source) == 1) &&
           ops()[static_cast<std::size_t>(writer_of(source))].kind == OpKind::kView) {
      views.push_back(static_cast<std::size_t>(writer_of(source)));
      source = ops()[views.back()].in[0];
    }
    const std::int64_t writer = writer_of(source);
    if (writer < 0 || !only_reader(t, source, index)) return false;
    const auto first = static_cast<std::size_t>(writer);
    const bool same_side = (first < program_.first_backward) == (index < program_.first_backward);
    if (!same_side || ops()[first].out.size() != 1) return false;
    // Two chains that fuse_chains() has left apart stay apart.
    if (ops()[first].kind != OpKind::kProgram && ops()[index].kind != OpKind::kProgram)
      return false;
    if (!keeps_no_more_alive(program_.graph, uses_, merged_, first, index)) return false;
    const std::optional<Op> joined = join(first, index, t);
    if (!joined) return false;
    for (const std::size_t view : views) merged_[view] = true;
    replace(first, index, *joined);
    return true;
  }

  // Returns whether operator `index` alone reads t, and t is the only use of its source.
  bool only_reader(TensorId t, TensorId source, std::size_t index) {
    const std::vector<TensorId>& in = ops()[index].in;
    return Uses::at(uses_.reads, t) == std::count(in.begin(), in.end(), t) &&
           (t == source || Uses::at(uses_.reads, source) == 1);
  }

  // Returns the joined operator; nothing if it exceeds a limit or t is not read in order.
  std::optional<Op> join(std::size_t writer, std::size_t reader, TensorId t) {
    const std::optional<Op> first = as_program(program_.graph, ops()[writer]);
    const std::optional<Op> into = as_program(program_.graph, ops()[reader]);
    if (!first || !into) return std::nullopt;
    // Views between the two operators can give one element list two shapes. The joined program runs
    // over dimensions in which the strides of both can be written.
    const std::optional<Sizes> sizes = common_sizes(first->program->space, into->program->space);
    if (!sizes) return std::nullopt;
    CodeWriter code;
    std::vector<ProgramOperand> operands;
    const auto terms_of = [&](const Op& op,
                              const Term* computed) -> std::optional<std::vector<Term>> {
      std::vector<Term> terms;
      for (std::size_t k = 0; k < op.in.size(); ++k) {
        const auto strides = divided_strides(op.program->space, k, *sizes);
        if (computed != nullptr && op.in[k] == t) {
          if (!is_dense(strides, *sizes)) return std::nullopt;
          terms.push_back(*computed);
          continue;
        }
        // A tensor that both read with the same strides becomes one input.
        const auto found = std::find_if(operands.begin(), operands.end(), [&](const auto& o) {
          return o.tensor == op.in[k] && o.stride == strides;
        });
        terms.push_back(code.input(static_cast<std::int32_t>(found - operands.begin())));
        if (found == operands.end()) operands.push_back({op.in[k], strides});
      }
      return terms;
    };
    const auto first_terms = terms_of(*first, nullptr);
    // The first program has one output, so value[0] is the value of the tensor between the two.
    std::vector<Term> value = code.append(first->program->code, *first_terms);
    // It is no longer stored, but it is rounded as if it were.
    if (program_.graph.tensors[static_cast<std::size_t>(first->out[0])].bf16)
      value[0] = emit(ElementOp::kRoundBf16, value[0]);
    const auto into_terms = terms_of(*into, value.data());
    if (!into_terms) return std::nullopt;
    const std::vector<Term> results = code.append(into->program->code, *into_terms);
    const std::optional<WrittenCode> written = code.finish(results);
    // The limits of program.h: the kernels keep the values of an element in a fixed number of
    // registers.
    if (!written || !with_few_registers(written->code)) return std::nullopt;
    Op op = *into;
    auto program = std::make_shared<ElementProgram>();
    program->code = written->code;
    program->space.rank = static_cast<std::int32_t>(sizes->size());
    std::copy(sizes->begin(), sizes->end(), program->space.size.begin());
    op.in.clear();
    for (const std::int32_t input : written->inputs) {
      const ProgramOperand& operand = operands[static_cast<std::size_t>(input)];
      program->space.stride[op.in.size()] = operand.stride;
      op.in.push_back(operand.tensor);
    }
    op.program = std::move(program);
    return op;
  }

  // Puts the joined operator into the place of the reader.
  void replace(std::size_t writer, std::size_t reader, const Op& joined) {
    // A tensor that both have read is now read once, so later merges may find that it has a single
    // reader. The tensor between the two has none any more.
    for (const Op& old : {ops()[writer], ops()[reader]})
      for (const TensorId t : old.in) --Uses::at(uses_.reads, t);
    for (const TensorId t : joined.in) {
      ++Uses::at(uses_.reads, t);
      std::int64_t& last = Uses::at(uses_.last_read, t);
      last = std::max(last, static_cast<std::int64_t>(reader));
    }
    merged_[writer] = true;
    ops()[reader] = joined;
  }

  Program program_;
  Uses uses_;
  std::vector<bool> merged_;  // [operator]: it has become a part of a later one
};

}  // namespace

std::optional<Op> as_program(const Graph& graph, const Op& op) {
  if (op.kind == OpKind::kProgram) return op;
  if (op.kind != OpKind::kChain) return std::nullopt;
  CodeWriter writer;
  Term v = writer.input(0);
  for (const ChainStep& step : op.chain) {
    const std::optional<Term> next = stage_term(step, v, writer.input(step.operand));
    if (!next) return std::nullopt;
    v = *next;
  }
  const TensorShape shape = graph.shape(op.out[0]);
  std::vector<ProgramOperand> operands;
  for (const TensorId t : op.in) operands.push_back({t, repeated_strides(shape, shape)});
  Op program = program_op(op.name, writer, {v}, shape, operands);
  program.out = op.out;
  return program;
}

Program fuse_programs(Program program) {
  const std::vector<Op>& ops = program.graph.ops;
  const bool any =
      std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.kind == OpKind::kProgram; });
  return any ? ProgramFusion(std::move(program)).run() : program;
}

}  // namespace es::gpu

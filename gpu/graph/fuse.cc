#include "gpu/graph/fuse.h"

#include <algorithm>
#include <utility>

#include "gpu/graph/precision.h"
#include "gpu/graph/recompute.h"
#include "gpu/graph/uses.h"

namespace es::gpu {
namespace {

Activation activation_of(const Op& op) {
  if (op.kind != OpKind::kChain) return Activation::kNone;
  const ChainStep& step = op.chain[0];
  if (step.kind == ChainKind::kRelu) return Activation::kRelu;
  // The kernels of batch norms know one slope only.
  if (step.kind == ChainKind::kLeakyRelu && step.factor == kLeakySlope)
    return Activation::kLeakyRelu;
  return Activation::kNone;
}

class ChainFusion {
 public:
  explicit ChainFusion(Program program)
      : program_(std::move(program)),
        uses_(program_.graph),
        merged_(program_.graph.ops.size(), false) {}

  Program run() {
    std::vector<Op>& ops = program_.graph.ops;
    // In ascending order, so a chain has already absorbed those before it when a later chain
    // absorbs it. The loop repeats because the absorbed chain brings a new in[0].
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (ops[i].kind == OpKind::kChain)
        while (absorb_one(i)) continue;
    drop_marked(program_, merged_);
    return std::move(program_);
  }

 private:
  // Merges one chain that feeds operator `index` into it. Returns false if there is none. The
  // operator keeps its place; the merged chain is removed later.
  bool absorb_one(std::size_t index) {
    Op& into = program_.graph.ops[index];
    if (!is_candidate(into.in[0], index)) {
      // v + operand and v * operand are commutative bit for bit, so the roles may be exchanged.
      ChainStep& first = into.chain[0];
      const bool swaps = (first.kind == ChainKind::kAdd || first.kind == ChainKind::kMul) &&
                         reads_once(into, first.operand);
      const auto operand = static_cast<std::size_t>(first.operand);
      if (!swaps || !is_candidate(into.in[operand], index)) return false;
      // Only the first stage reads this operand, so the exchange changes nothing for later stages.
      std::swap(into.in[0], into.in[operand]);
    }
    const auto writer =
        static_cast<std::size_t>(uses_.writer[static_cast<std::size_t>(into.in[0])]);
    merge(program_.graph.ops[writer], into);
    merged_[writer] = true;
    return true;
  }

  // Returns whether only the first stage reads this operand.
  static bool reads_once(const Op& op, std::int32_t operand) {
    return std::none_of(op.chain.begin() + 1, op.chain.end(),
                        [&](const ChainStep& s) { return s.operand == operand; });
  }

  // Returns whether tensor t is computed by a chain that operator `reader` may take over.
  bool is_candidate(TensorId t, std::size_t reader) {
    const std::int64_t writer = Uses::at(uses_.writer, t);
    // A result with another reader has to be written anyway.
    if (writer < 0 || Uses::at(uses_.reads, t) != 1) return false;
    const Op& op = program_.graph.ops[static_cast<std::size_t>(writer)];
    if (op.kind != OpKind::kChain) return false;
    // Program::first_backward divides the list: the model's own operators stay in front of it, and
    // gradients behind it.
    const bool same_side = (static_cast<std::size_t>(writer) < program_.first_backward) ==
                           (reader < program_.first_backward);
    const Op& into = program_.graph.ops[reader];
    const std::size_t rounding = program_.graph.tensors[static_cast<std::size_t>(t)].bf16 ? 1 : 0;
    return same_side && op.chain.size() + rounding + into.chain.size() <= kChainStepsMax &&
           keeps_no_more_alive(program_.graph, uses_, merged_, static_cast<std::size_t>(writer),
                               reader);
  }

  // The new chain has the stages of `first` and then those of `into`. It keeps the place and the
  // result of `into`.
  void merge(const Op& first, Op& into) {
    std::vector<TensorId> in = first.in;
    std::vector<ChainStep> chain = first.chain;
    // The value between the two is no longer stored, but it is rounded as if it were.
    if (program_.graph.tensors[static_cast<std::size_t>(first.out[0])].bf16)
      chain.push_back({.kind = ChainKind::kRoundBf16});
    // Operand k of `into` moves behind the inputs of `first`. The shift is one less than their
    // number because in[0] of `into` is now computed and no input any more.
    const auto shift = static_cast<std::int32_t>(in.size()) - 1;
    in.insert(in.end(), into.in.begin() + 1, into.in.end());
    for (ChainStep step : into.chain) {
      // 0 means that the stage has no operand.
      if (step.operand != 0) step.operand += shift;
      chain.push_back(step);
    }
    // The inputs of `first` are now read at the place of `into` and live at least until there.
    const auto reader = &into - program_.graph.ops.data();
    for (const TensorId t : first.in)
      Uses::at(uses_.last_read, t) = std::max<std::int64_t>(Uses::at(uses_.last_read, t), reader);
    into.in = std::move(in);
    into.chain = std::move(chain);
  }

  Program program_;
  Uses uses_;
  std::vector<bool> merged_;  // [operator]: it has become a part of a later one
};

}  // namespace

Graph fuse_activations(Graph graph) {
  const Uses uses(graph);
  std::vector<bool> merged(graph.ops.size(), false);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Activation activation = activation_of(graph.ops[i]);
    if (activation == Activation::kNone) continue;
    const auto x = static_cast<std::size_t>(graph.ops[i].in[0]);
    if (uses.writer[x] < 0 || uses.reads[x] != 1) continue;
    Op& norm = graph.ops[static_cast<std::size_t>(uses.writer[x])];
    if (norm.kind != OpKind::kBatchNorm || norm.activation != Activation::kNone) continue;
    // This happens before differentiation, so the graph has no gradient yet that reads the result
    // without the activation. The gradient of the batch norm includes that of the activation.
    norm.activation = activation;
    norm.out[0] = graph.ops[i].out[0];
    merged[i] = true;
  }
  drop_marked(graph.ops, merged);
  return graph;
}

Program fuse_chains(Program program) {
  return ChainFusion(std::move(program)).run();
}

Program compile(Graph graph, std::int64_t chunked_logits) {
  graph = fuse_activations(pack_attention(std::move(graph)));
  Program program = differentiate(choose_storage(std::move(graph)));
  program = recompute(chunk_losses(std::move(program), chunked_logits));
  // Chains with several stages and joined programs have no gradients, and recompute() requires that
  // nothing but activations is fused, so the other fusions come last. fuse_programs() joins no two
  // chains, so fuse_chains() comes before it.
  return convert_storage(place_moves(fuse_moves(fuse_programs(fuse_chains(std::move(program))))));
}

Program compile_forward(Graph graph) {
  Program program{choose_storage(fuse_activations(pack_attention(std::move(graph))))};
  program.first_backward = program.graph.ops.size();
  return convert_storage(place_moves(fuse_moves(fuse_programs(fuse_chains(std::move(program))))));
}

}  // namespace es::gpu

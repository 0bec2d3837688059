#include "gpu/graph/recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "gpu/graph/ops/operator.h"
#include "gpu/graph/uses.h"

namespace es::gpu {
namespace {

class Recomputation {
 public:
  explicit Recomputation(Program program)
      : program_(std::move(program)),
        writer_(Uses(program_.graph).writer),
        repeated_(program_.first_backward, false),
        copy_(program_.graph.tensors.size(), kNoTensor) {
    for (std::size_t i = 0; i < program_.first_backward; ++i)
      // Batch norms that share statistics have the same offset of their mean.
      if (ops()[i].kind == OpKind::kBatchNorm) ++norms_[ops()[i].stats.mean];
  }

  Program run() {
    mark_repeated();
    for (std::size_t i = 0; i < ops().size(); ++i) {
      Op op = ops()[i];
      const bool reads_region = std::any_of(op.in.begin(), op.in.end(),
                                            [&](TensorId t) { return source(t, op).has_value(); });
      // The first gradient of a region that needs a result again brings all copies of the region.
      // The copies then follow the gradients of later regions, whose memory is free again.
      if (i >= program_.first_backward && reads_region) {
        insert_copies(op.region);
        read_copies(op);
      }
      result_.push_back(std::move(op));
    }
    program_.graph.ops = std::move(result_);
    return std::move(program_);
  }

 private:
  const std::vector<Op>& ops() const { return program_.graph.ops; }

  // Returns the operator that computes tensor t again for `reader`, if there is one.
  std::optional<std::size_t> source(TensorId t, const Op& reader) const {
    const std::int64_t writer = Uses::at(writer_, t);
    if (reader.region == 0 || writer < 0) return std::nullopt;
    const auto index = static_cast<std::size_t>(writer);
    // Only forward operators are computed again, and only for readers of their own region: what
    // another region reads has to stay in memory as it is.
    const bool is_forward = index < program_.first_backward;
    if (!is_forward || ops()[index].region != reader.region || !may_repeat(ops()[index]))
      return std::nullopt;
    return index;
  }

  // A repeated batch norm writes its running statistics again, from the same inputs. The bits are
  // the same, but they would replace those that a later batch norm has made of them. A state is
  // written once.
  bool may_repeat(const Op& op) const {
    if (op_def(op.kind).is_loss || op.kind == OpKind::kSetState) return false;
    return op.kind != OpKind::kBatchNorm || norms_.at(op.stats.mean) == 1;
  }

  // Readers come after what they read, so the last operators are looked at first. A gradient marks
  // what it reads, and a marked operator marks its own inputs within the region.
  void mark_repeated() {
    for (std::size_t i = ops().size(); i-- > 0;) {
      if (i < program_.first_backward && !repeated_[i]) continue;
      for (const TensorId t : ops()[i].in)
        if (const auto index = source(t, ops()[i])) repeated_[*index] = true;
    }
    for (std::size_t i = 0; i < program_.first_backward; ++i)
      if (repeated_[i]) pending_[ops()[i].region].push_back(i);
  }

  void insert_copies(std::uint32_t region) {
    // The exchange leaves an empty list, so the copies are inserted once.
    for (const std::size_t i : std::exchange(pending_[region], {})) {
      Op copy = ops()[i];
      read_copies(copy);
      // Copies have tensors of their own, so every tensor still has one writer.
      for (TensorId& t : copy.out) t = Uses::at(copy_, t) = add_tensor_like(t);
      result_.push_back(std::move(copy));
    }
  }

  void read_copies(Op& op) const {
    for (TensorId& t : op.in)
      // Inputs from outside of the region are read as they are; they stay in memory until here.
      if (source(t, op)) t = Uses::at(copy_, t);
  }

  TensorId add_tensor_like(TensorId t) {
    std::vector<Tensor>& tensors = program_.graph.tensors;
    const Tensor tensor = Uses::at(tensors, t);
    tensors.push_back(tensor);
    return static_cast<TensorId>(tensors.size() - 1);
  }

  Program program_;
  std::vector<std::int64_t> writer_;   // [tensor]: operator, or -1
  std::map<std::int64_t, int> norms_;  // [place of the statistics]: batch norms that update them
  std::vector<bool> repeated_;         // [forward operator]
  std::vector<TensorId> copy_;         // [tensor]; kNoTensor: it is not computed again
  // [region]: the operators whose copies are not yet in result_, in order.
  std::map<std::uint32_t, std::vector<std::size_t>> pending_;
  std::vector<Op> result_;
};

}  // namespace

Program recompute(Program program) {
  return Recomputation(std::move(program)).run();
}

}  // namespace es::gpu

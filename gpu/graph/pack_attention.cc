#include "gpu/graph/fuse.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "gpu/graph/move_shapes.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/graph/uses.h"

namespace es::gpu {
namespace {

constexpr std::size_t kParts = 3;          // q, k and v
constexpr std::int64_t kColumns = kParts;  // of the packed tensor, in widths of q

bool same_copy(const BlockCopy& a, const BlockCopy& b) {
  return a.source_offset == b.source_offset && a.target_offset == b.target_offset &&
         a.size == b.size && a.source_stride == b.source_stride &&
         a.target_stride == b.target_stride;
}

class AttentionPacking {
 public:
  explicit AttentionPacking(Graph graph)
      : graph_(std::move(graph)), uses_(graph_), dropped_(graph_.ops.size(), false) {}

  Graph run() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i)
      if (const std::optional<Thirds> thirds = thirds_of(graph_.ops[i])) pack(*thirds, i);
    drop_marked(graph_.ops, dropped_);
    return std::move(graph_);
  }

 private:
  // The move that copies the thirds of a tensor, and the views of its outputs.
  struct Thirds {
    std::size_t move;
    std::vector<std::size_t> views;
  };

  std::optional<Thirds> thirds_of(const Op& op) const {
    if (op.kind != OpKind::kAttention || op.attention_in.packed || op.attention.by_head) return {};
    Thirds thirds{};
    std::array<TensorId, kParts> parts{};
    for (std::size_t i = 0; i < kParts; ++i) {
      parts[i] = behind_views(op, op.in[i], thirds.views);
      const std::int64_t writer = Uses::at(uses_.writer, parts[i]);
      if (writer < 0 || (i > 0 && static_cast<std::size_t>(writer) != thirds.move)) return {};
      thirds.move = static_cast<std::size_t>(writer);
    }
    return copies_thirds(op, graph_.ops[thirds.move], parts) ? std::optional(thirds) : std::nullopt;
  }

  // Returns the tensor of which `t` is a view, if nothing else reads it. Records the views.
  TensorId behind_views(const Op& reader, TensorId t, std::vector<std::size_t>& views) const {
    while (Uses::at(uses_.reads, t) == 1 && Uses::at(uses_.writer, t) >= 0) {
      const auto index = static_cast<std::size_t>(Uses::at(uses_.writer, t));
      const Op& op = graph_.ops[index];
      if (!op_def(op.kind).is_view || op.region != reader.region) break;
      views.push_back(index);
      t = op.in[0];
    }
    return t;
  }

  bool copies_thirds(const Op& attention, const Op& move,
                     const std::array<TensorId, kParts>& parts) const {
    const AttentionShape& a = attention.attention;
    const std::int64_t rows = a.batch * a.tokens, width = a.heads * a.head_dim;
    if (move.kind != OpKind::kMove || move.region != attention.region || move.in.size() != 1 ||
        move.out.size() != kParts || move.move.size() != kParts ||
        graph_.shape(move.in[0]).count() != rows * kColumns * width)
      return false;
    const Move expected = split_move({rows, kColumns * width}, 1, kColumns);
    for (const BlockCopy& copy : move.move) {
      const TensorId t = move.out[static_cast<std::size_t>(copy.target)];
      const auto part = std::ranges::find(parts, t) - parts.begin();
      if (part == kColumns || Uses::at(uses_.reads, t) != 1 ||
          !same_copy(copy, expected[static_cast<std::size_t>(part)]))
        return false;
    }
    return true;
  }

  void pack(const Thirds& thirds, std::size_t index) {
    Op &move = graph_.ops[thirds.move], &attention = graph_.ops[index];
    AttentionShape& a = attention.attention;
    Tensor packed = graph_.tensors[static_cast<std::size_t>(move.in[0])];
    a.qkv_stride = kColumns * a.heads * a.head_dim;
    packed.shape = ImageShape{a.batch, a.tokens, 1, a.qkv_stride};
    graph_.tensors.push_back(packed);
    const auto tensor = static_cast<TensorId>(graph_.tensors.size() - 1);
    // The move becomes a view of the packed rows.
    move.kind = OpKind::kView;
    move.move.clear();
    move.out = {tensor};
    attention.in.erase(attention.in.begin(), attention.in.begin() + kParts);
    attention.in.insert(attention.in.begin(), tensor);
    AttentionInputs& in = attention.attention_in;
    in.packed = true;
    for (std::int32_t* extra : {&in.bias, &in.mask, &in.length, &in.first})
      if (*extra >= 0) *extra -= static_cast<std::int32_t>(kParts) - 1;
    for (const std::size_t view : thirds.views) dropped_[view] = true;
  }

  Graph graph_;
  Uses uses_;
  std::vector<bool> dropped_;  // [operator]
};

}  // namespace

Graph pack_attention(Graph graph) {
  return AttentionPacking(std::move(graph)).run();
}

}  // namespace es::gpu

#pragma once
// ProgramBuilder is a GraphBuilder that also writes each operator as a node of a ModelProgram, so
// that a model which is described once can be built or written as a model file. It overrides what
// the built-in models call; other operators have no node, and a model that reads one ends the
// process.
//
// A program has PyTorch's shapes and a graph the engine's. So a tensor is a value in one or both of
// two forms, whose conversions are written where a node needs the other form:
//   image   [n,c,h,w]
//   rows    the words of the tensor in its own order, in any extents; the extents that nodes on
//           tokens and features read lack h and w where these are 1, and c where it is 1 and
//           the tensor holds integers: [n,t,c], [n,c], ids [n,t], labels [n]
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gpu/graph/builder.h"
#include "proto/base/model_program.h"

namespace es::gpu {

class ProgramBuilder final : public GraphBuilder {
 public:
  // `batch` decides no extent: the first one of what depends on the samples is written per batch.
  ProgramBuilder(std::string model, std::int64_t batch, const SampleLayout& layout);

  // The program so far. It is complete when finish() has returned a graph.
  const ModelProgram& program() const { return program_; }

  TensorId constant(const std::string& name, TensorShape shape, std::vector<float> values) override;
  TensorId constant_ids(const std::string& name, TensorShape shape,
                        std::vector<std::int32_t> values) override;

  TensorId conv2d(const std::string& name, TensorId x, const Conv2dOptions& options) override;
  TensorId linear(const std::string& name, TensorId x, const LinearOptions& options) override;
  TensorId batch_norm(const std::string& name, TensorId x, BatchNormOptions options) override;
  TensorId layer_norm(const std::string& name, TensorId x, double eps) override;
  TensorId lookup(const std::string& parameter, TensorId ids, std::int64_t rows, std::int64_t out,
                  WeightInit init) override;
  void state_dict_buffer(BufferInfo info) override;

  TensorId relu(const std::string& name, TensorId x) override;
  TensorId gelu(const std::string& name, TensorId x) override;
  TensorId add(const std::string& name, TensorId a, TensorId b, ReluFused fused) override;
  TensorId mul(const std::string& name, TensorId a, TensorId b) override;
  TensorId add_rows(const std::string& name, TensorId a, TensorId row) override;
  TensorId dropout(const std::string& name, TensorId x, double p) override;
  TensorId drop_path(const std::string& name, TensorId x, double p) override;

  TensorId attention(const std::string& name, TensorId q, TensorId k, TensorId v,
                     const AttentionOptions& options) override;
  TensorId attention(const std::string& name, TensorId packed_qkv,
                     const AttentionOptions& options) override;

  TensorId max_pool(const std::string& name, TensorId x, const PoolOptions& options) override;
  TensorId adaptive_avg_pool(const std::string& name, TensorId x, std::int64_t h,
                             std::int64_t w) override;
  TensorId global_avg_pool(const std::string& name, TensorId x) override;

  TensorId reshape(const std::string& name, TensorId x, TensorShape shape) override;
  TensorId flatten(const std::string& name, TensorId x) override;
  TensorId concat(const std::string& name, const std::vector<TensorId>& xs, int axis) override;
  TensorId slice(const std::string& name, TensorId x, int axis, std::int64_t begin,
                 std::int64_t count) override;
  TensorId pad(const std::string& name, TensorId x, int axis, std::int64_t before,
               std::int64_t after) override;
  TensorId permute(const std::string& name, TensorId x, const std::vector<int>& order) override;
  TensorId roll(const std::string& name, TensorId x, int axis, std::int64_t shift) override;
  TensorId window_partition(const std::string& name, TensorId x, std::int64_t side) override;
  TensorId window_reverse(const std::string& name, TensorId windows, std::int64_t side,
                          ImageShape image) override;
  TensorId upsample2(const std::string& name, TensorId x) override;
  TensorId channel_shuffle(const std::string& name, TensorId x, std::int64_t groups) override;
  std::pair<TensorId, TensorId> concat_shuffle_split(const std::string& name, TensorId a,
                                                     TensorId b) override;

  void cross_entropy(const std::string& name, TensorId logits, TensorId labels,
                     const LossTerms& terms = {}) override;
  void bce_with_logits(const std::string& name, TensorId logits, TensorId targets) override;
  void yolo(const std::string& name, const std::vector<TensorId>& outputs, TensorId boxes,
            const YoloShape& shape, std::int64_t image_h, std::int64_t image_w) override;

  Result<Graph> finish(const std::vector<TensorId>& outputs) override;

 private:
  using Extents = std::vector<std::int64_t>;

  using Attributes = std::vector<ModelAttribute>;
  enum class Form { kImage, kRows };

  // The values of a tensor.
  struct Forms {
    Form made = Form::kRows;   // the form in which the model made the tensor
    ValueId image = kNoValue;  // kNoValue: no node has needed it
    std::map<Extents, ValueId> rows;
  };

  // --- Values.

  ValueId add_value(ValueType type, const Extents& extents, bool per_batch);
  bool per_batch(ValueId id) const;
  Extents extents(ValueId id) const;
  void add_input(const SampleField& field);
  TensorId hold_constant(const std::string& name, TensorId y, ValueType type,
                         std::vector<std::uint32_t> words);
  ValueId parameter_value(ParamId id);

  // Appends a node with one output of these extents, which is per batch if an input is.
  ValueId node(const char* kind, const std::string& name, const std::vector<ValueId>& inputs,
               const Extents& extents, Attributes attributes = {});
  ValueId reshaped(const std::string& name, ValueId x, const Extents& extents);
  ValueId permuted(const std::string& name, ValueId x, const Extents& order);

  // --- The forms of tensors.

  Forms& forms(TensorId t);
  Extents whole(TensorId t) const;   // the extents of the tensor
  Extents tokens(TensorId t) const;  // those of rows that nodes on tokens and features read
  Extents pixels(TensorId t) const;  // those of an image
  ValueId image(TensorId t);
  ValueId rows(TensorId t, const Extents& extents);
  ValueId in(TensorId t, Form form) { return form == Form::kImage ? image(t) : rows(t, tokens(t)); }
  TensorId hold(TensorId t, Form form, ValueId id);

  // --- Nodes of several calls. Each gives the tensor y, which the call has returned, its value.

  TensorId element_wise(const char* kind, const std::string& name, const std::vector<TensorId>& xs,
                        TensorId y, const Attributes& attributes = {});
  TensorId random(const char* kind, const std::string& name, TensorId x, TensorId y, double p,
                  std::uint32_t site);
  TensorId pool(const char* kind, const std::string& name, TensorId x, TensorId y,
                const Attributes& attributes);
  // A node on the tensor's own axes.
  TensorId move(const char* kind, const std::string& name, TensorId x, TensorId y,
                const Attributes& attributes);
  ValueId shuffled(const std::string& name, ValueId x, std::int64_t groups);
  ValueId heads(const std::string& name, ValueId x, std::int64_t heads);
  TensorId attend(const std::string& name, const std::vector<ValueId>& qkv, TensorId y,
                  const AttentionOptions& options, std::uint32_t site);
  void loss(const char* kind, const std::string& name, const std::vector<ValueId>& inputs,
            Attributes attributes);

  ModelProgram program_;
  std::map<TensorId, Forms> forms_;
  std::map<TensorId, TensorId> flattened_;  // [flattened image] the image
};

}  // namespace es::gpu
